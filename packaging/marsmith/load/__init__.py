"""Load for a server on this machine: requests in closed and open loops, and when each was due and answered."""
