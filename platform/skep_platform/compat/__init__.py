"""OpenPAI's REST API in front of Skep, for clients that were written for OpenPAI.

It translates and does nothing else: no model and no rule of its own. Reads go through the queries
of the other apps and writes through their services, with the rights of Skep.
"""
