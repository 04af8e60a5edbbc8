import inspect

import pytest

from covary import errors

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_is_a_covary_error_and_one_of_pythons(error):
    assert issubclass(error, errors.CovaryError)
    builtin = {base for base in error.__mro__ if base.__module__ == "builtins"} - {Exception, BaseException, object}
    assert builtin or error is errors.CovaryError
