"""A type for options that count something."""

import click


class PositiveInteger(click.IntRange):
    """A whole number from 1; what is no number at all is called no integer, not no "integer range"."""

    name = "integer"

    def __init__(self) -> None:
        super().__init__(min=1)
