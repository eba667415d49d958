"""What an error of sending an e-mail means."""

from __future__ import annotations

import smtplib

ERRORS = (OSError, smtplib.SMTPException, ValueError)


def meaning(error: Exception) -> tuple[str, bool]:
    """Return what to say of one of ERRORS, and whether the e-mail is refused for good (a code of
    5xx, or what is no address), so that it is not tried again."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"The mail server answered {error.smtp_code}.", 500 <= error.smtp_code < 600
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code = next(iter(error.recipients.values()), (0, b""))[0]
        return f"The mail server refused the address ({code}).", 500 <= code < 600
    return f"It could not be sent ({type(error).__name__}).", isinstance(error, ValueError)


def is_answer(error: Exception) -> bool:
    """Return whether the server is there: it answered, or was not asked."""
    answers = (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused, ValueError)
    return isinstance(error, answers)
