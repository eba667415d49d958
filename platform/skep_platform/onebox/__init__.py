"""`skep up`: a whole Skep on one machine under one supervisor."""
