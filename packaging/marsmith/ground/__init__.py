"""What everything stands on: limits, files, untrusted text, wording, and the settings that an archive carries."""
