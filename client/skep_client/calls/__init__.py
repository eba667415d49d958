"""The requests of the API as values: what to send, and what the answer is made of.

Each function makes one request. `api_table.Api` is the table that turns them into the methods of
`Skep` and `AsyncSkep`; a new route is one function in a module of this package and one line there.
"""

from skep_client.calls.accounts import *  # noqa: F403
from skep_client.calls.cluster import *  # noqa: F403
from skep_client.calls.jobs import *  # noqa: F403
from skep_client.calls.notifications import *  # noqa: F403
from skep_client.calls.operations import *  # noqa: F403
from skep_client.calls.people import *  # noqa: F403
from skep_client.calls.request import *  # noqa: F403
from skep_client.calls.templates import *  # noqa: F403
from skep_client.calls.tenants import *  # noqa: F403
