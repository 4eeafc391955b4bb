"""What can go wrong between us and Google's APIs.

GoogleError
  SilentError    no answer within its deadline, or the connection broke
  AccessError    no credentials to ask with, or they do not suffice
  BusyError      too many questions (429), or the service is not there now (503)
  RefusedError   an answer that says no, in Google's own words
  BrokenError    an answer that cannot be one: endless, far too long, empty, or not its form
"""


class GoogleError(Exception):
    """A question to Google that got no answer, or not the one that was asked for.

    ``is_transient``: asking again later can help.
    """

    is_transient = False


class SilentError(GoogleError):
    """Nothing came within the deadline, or the connection broke. It says nothing else."""

    is_transient = True


class AccessError(GoogleError):
    """There are no credentials, they could not be renewed, or they may not do that."""


class BusyError(GoogleError):
    """The service has no room for the question now."""

    is_transient = True


class RefusedError(GoogleError):
    """The service answered with an error that trying again does not mend."""


class BrokenError(GoogleError):
    """The answer cannot be one, and nothing of it is believed."""
