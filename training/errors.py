"""What a recipe says when it cannot go on."""


class TrainingError(Exception):
    """Something a user can mend; the text is one sentence that says what is wrong and what to do."""
