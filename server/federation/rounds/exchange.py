"""Messages of a round: to whom, and what comes back, over any Flower Grid."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from httpx import HTTPError

from pocketquery.client.device import Offer
from pocketquery.client.records import Reply, offer_records, read_reply
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.federation.rounds.clock import Clock

__all__ = ["Arrival", "Exchange"]

_TTL_SLACK = 60.0  # seconds a message outlives its round, so that late replies are seen as such
_CONNECTION = (OSError, HTTPError)  # the SuperLink's failures, which are not a reply's

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Arrival:
    """A reply, and whether it answers a question of an earlier round."""

    reply: Reply
    late: bool


class Exchange:
    """Asks devices and yields their replies.

    Args:
        grid: how devices are reached.
        clock: for waiting.
        seed: of the choice of devices.
        poll_seconds: between two looks for replies.
        connect_seconds: how long to wait for devices before a round is given up.
    """

    def __init__(
        self,
        grid: Grid,
        clock: Clock,
        *,
        seed: int = 0,
        poll_seconds: float = 1.0,
        connect_seconds: float = 120.0,
    ) -> None:
        self._grid = grid
        self._clock = clock
        self._seed = seed
        self._poll_seconds = poll_seconds
        self._connect_seconds = connect_seconds
        self._waiting: list[str] = []  # messages of this round that nobody answered yet
        self._stragglers: list[str] = []  # and of the one before

    def connected(self, least: int) -> list[int]:
        """The devices that are connected, once there are ``least``, in a fixed order.

        Raises:
            ArtifactError: fewer came; nothing was begun.
        """
        end = self._clock.now() + self._connect_seconds
        while len(nodes := sorted(self._grid.get_node_ids())) < least:
            if self._clock.now() > end:
                raise ArtifactError(
                    f"{len(nodes)} devices are connected after {self._connect_seconds:.0f} s, a "
                    f"round needs {least}; start more, or lower least_replies"
                )
            self._clock.sleep(self._poll_seconds)
        return nodes

    def ask(self, offer: Offer, nodes: Sequence[int], count: int, seconds: float) -> None:
        """Send ``offer`` to ``count`` of ``nodes``, drawn by seed and round."""
        rng = np.random.default_rng([self._seed, offer.round])
        content, group = offer_records(offer), str(offer.round)
        messages = [
            Message(content, nodes[place], "train", group_id=group, ttl=seconds + _TTL_SLACK)
            for place in rng.permutation(len(nodes))[:count]
        ]
        self._stragglers = self._waiting
        self._waiting = [one for one in self._grid.push_messages(messages) if one]

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival]:
        """Replies as they come, until nobody is left to reply or ``is_over``.

        Whoever has enough leaves the loop; replies that come later come with the next round's.

        Raises:
            OSError, httpx.HTTPError: the connection to the SuperLink fails. No reply raises.
        """
        while self._waiting and not is_over():
            came = False
            for asked in [*self._stragglers, *self._waiting]:
                late = asked in self._stragglers
                for reply in self._replies_to(asked):
                    came = True
                    yield Arrival(reply, late)
                if is_over():
                    return
            if not came:
                self._clock.sleep(self._poll_seconds)

    def _replies_to(self, asked: str) -> list[Reply]:
        """What came in reply to one message; one that cannot even be unpacked is empty bytes.

        One message a call: Flower unpacks replies while it pulls them, and where one cannot be, it
        raises and the others of the same call are lost.
        """
        try:
            messages = list(self._grid.pull_messages([asked]))
            found = [read_reply(one) for one in messages if _answers(one, asked)]
        except _CONNECTION:
            raise
        except Exception:
            _log.exception("a reply could not be unpacked")
            found = [Reply(b"", {})]
        for waiting in (self._waiting, self._stragglers):
            if found and asked in waiting:
                waiting.remove(asked)
        return found


def _answers(message: Message, asked: str) -> bool:
    return message.metadata.reply_to_message_id == asked
