"""What is logged of actors."""

import logging

from elwood.foundation.runtime import Address, Crashed, Ended, Event, Listener, Started

log = logging.getLogger("elwood.health")


def listener(health: Address[Event]) -> Listener:
    """Make what the supervisors call on every event: it logs, and wakes *health* if it can.

    The events of a pool's children, which come and go with every conversation, are details.
    """

    def listen(event: Event) -> None:
        level = logging.DEBUG if "/" in event.name else logging.INFO
        match event:
            case Started(name, restart):
                log.log(level, "actor started", extra={"actor": name, "restart": restart})
            case Crashed(name, error, delay):
                fields = {"actor": name, "delay": delay}
                log.error("actor crashed", extra=fields, exc_info=error)
            case Ended(name):
                log.log(level, "actor ended", extra={"actor": name})
        health.offer(event)

    return listen
