"""Celery as a doorbell: a message says "there is work for this device class", and nothing else.

The truth is in the database. A lost, late or doubled message costs at most a few seconds, so messages are acknowledged early,
keep no result, have no priority and expire.
"""

import logging
from collections.abc import Callable

from celery import Celery
from kombu.exceptions import OperationalError

from kernelderby.core.settings import Settings

log = logging.getLogger(__name__)

RING = "derby.ring"
_STALE_S = 60             # a worker that was away looks into the database anyway
_DOOR_TIMEOUT_S = 1.0     # a door never waits longer for the broker


def queue_name(device: str) -> str:
    """The queue of a device class."""
    return f"derby.{device}"


def celery_app(settings: Settings) -> Celery:
    """The application that workers run. Needs a broker_url."""
    app = Celery("kernelderby", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        task_acks_late=False, task_ignore_result=True, worker_prefetch_multiplier=1, worker_pool="solo",
        worker_hijack_root_logger=False, worker_redirect_stdouts=False, worker_enable_remote_control=False,
        worker_cancel_long_running_tasks_on_connection_loss=False, broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,   # for ever: without the broker a worker still finds its work
        broker_transport_options={"global_keyprefix": "derby:", "socket_timeout": 30, "socket_connect_timeout": 5},
    )
    return app


def ring(settings: Settings) -> Callable[[str], None]:
    """A function that rings for a device class. It never raises and never waits long; without a broker it does nothing."""
    if not settings.broker_url:
        return lambda device: None
    app = celery_app(settings)
    app.conf.broker_transport_options = {
        "global_keyprefix": "derby:", "socket_timeout": _DOOR_TIMEOUT_S, "socket_connect_timeout": _DOOR_TIMEOUT_S, "max_retries": 0,
    }

    def ring_for(device: str) -> None:
        try:
            app.send_task(RING, queue=queue_name(device), expires=_STALE_S, retry=False)
        except (OperationalError, OSError) as error:
            log.warning("the broker was not reached; idle workers look by themselves", extra={"device": device, "error": str(error)})

    return ring_for
