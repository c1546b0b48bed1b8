"""Exceptions of this package that are not plain built-ins."""


class ContractError(ValueError, AssertionError):
    """A wrong value where pytorch-metric-learning 2.9 raises ``AssertionError``.

    It is both, so that ``except AssertionError`` written for that library goes on working.

    Examples
    --------
    >>> from nearwise.errors import ContractError
    >>> issubclass(ContractError, ValueError) and issubclass(ContractError, AssertionError)
    True
    """
