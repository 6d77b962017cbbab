"""Messages of a round: to whom, what comes back and who drops out, over any Flower Grid."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from httpx import HTTPError

from pocketquery.client.offer import Offer
from pocketquery.client.private.transport import MESSAGE_TYPE, SecureReply, read_secure_reply
from pocketquery.client.records import Reply, offer_records, read_reply
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.federation.orchestration.clock import Clock

__all__ = ["Arrival", "Exchange"]

_TTL_SLACK = 60.0  # seconds a message outlives its round, so that late replies are seen as such
_POLL_S = 1.0  # between two looks for replies
_CONNECT_S = 120.0  # how long to wait for devices before a round is given up
_CONNECTION = (OSError, HTTPError)  # the SuperLink's failures, which are not a reply's

_log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True)
class Arrival(Generic[R]):
    """A reply, and from whom.

    Attributes:
        reply: what came.
        late: whether it answers a question of an earlier round or stage.
        node: who was asked.
    """

    reply: R
    late: bool
    node: int


class Exchange:
    """Asks devices and yields their replies.

    Args:
        grid: how devices are reached.
        clock: for waiting.
        seed: of the choice of devices.
    """

    def __init__(self, grid: Grid, clock: Clock, *, seed: int = 0) -> None:
        self._grid = grid
        self._clock = clock
        self._seed = seed
        # Whom the messages went to that nobody answered yet: of this round or stage, and before.
        self._waiting: dict[str, int] = {}
        self._stragglers: dict[str, int] = {}
        self._ends: dict[str, float] = {}  # when those of buffered rounds are given up

    def connected(self, least: int) -> list[int]:
        """The devices that are connected, once there are ``least``, in a fixed order.

        Raises:
            ArtifactError: fewer came; nothing was begun.
        """
        end = self._clock.now() + _CONNECT_S
        while len(nodes := sorted(self._grid.get_node_ids())) < least:
            if self._clock.now() > end:
                raise ArtifactError(
                    f"{len(nodes)} devices are connected after {_CONNECT_S:.0f} s, a "
                    f"round needs {least}; start more, or lower least_replies"
                )
            self._clock.sleep(_POLL_S)
        return nodes

    def drawn(self, number: int, nodes: Sequence[int], count: int) -> list[int]:
        """``count`` of ``nodes``, drawn by seed and round."""
        order = np.random.default_rng([self._seed, number]).permutation(len(nodes))
        return [nodes[place] for place in order[:count]]

    def ask(self, offer: Offer, nodes: Sequence[int], count: int, seconds: float) -> None:
        """Send ``offer`` to ``count`` of ``nodes``, drawn by seed and round."""
        content, chosen = offer_records(offer), self.drawn(offer.round, nodes, count)
        self.send(((node, content) for node in chosen), "train", str(offer.round), seconds)

    def ask_also(self, offer: Offer, nodes: Sequence[int], seconds: float) -> None:
        """Send ``offer`` to ``nodes`` and go on waiting for what was asked before, of buffered
        rounds; a node is given up after ``seconds``, see :meth:`give_up`."""
        content, before = offer_records(offer), self._waiting
        self.send(((node, content) for node in nodes), "train", str(offer.round), seconds)
        self._ends |= dict.fromkeys(self._waiting, self._clock.now() + seconds)
        self._waiting, self._stragglers = before | self._waiting, {}

    def is_over_time(self) -> bool:
        """Whether a node that was asked by :meth:`ask_also` has had its time."""
        return any(True for _ in self._over_time())

    def give_up(self) -> int:
        """Wait no longer for nodes that have had their time; how many those were."""
        over = list(self._over_time())
        for one in over:
            del self._waiting[one]
        self._ends = {one: end for one, end in self._ends.items() if one in self._waiting}
        return len(over)

    def _over_time(self) -> Iterator[str]:
        now = self._clock.now()
        return (one for one in self._waiting if now > self._ends.get(one, math.inf))

    def in_flight(self) -> set[int]:
        """The nodes that are waited for."""
        return set(self._waiting.values())

    def ask_stage(
        self, contents: Iterable[tuple[int, RecordDict]], number: int, stage: int, seconds: float
    ) -> None:
        """Send each node its message of one stage of the private round ``number``."""
        self.send(contents, MESSAGE_TYPE, f"{number}.{stage}", seconds)

    def send(
        self,
        contents: Iterable[tuple[int, RecordDict]],
        kind: str,
        group: str,
        seconds: float,
        *,
        more: bool = False,
    ) -> None:
        """Send each node its message.

        Args:
            contents: node and content.
            kind: Flower's message type.
            group: round and stage.
            seconds: for which replies may come.
            more: besides what is waited for, which is late from now on otherwise.
        """
        messages = [
            Message(content, node, kind, group_id=group, ttl=seconds + _TTL_SLACK)
            for node, content in contents
        ]
        sent = zip(self._grid.push_messages(messages), messages, strict=True)
        if not more:
            self._stragglers, self._waiting = self._waiting, {}
        self._waiting |= {one: message.metadata.dst_node_id for one, message in sent if one}

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival[Reply]]:
        """Replies as they come, until nobody is left to reply or ``is_over``; one that cannot even
        be unpacked is empty bytes.

        Whoever has enough leaves the loop; replies that come later come with the next round's.

        Raises:
            OSError, httpx.HTTPError: the connection to the SuperLink fails. No reply raises.
        """
        return self.arrivals_read(is_over, read_reply, Reply(b"", {}))

    def stage_arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival[SecureReply]]:
        """The same of a stage's messages."""
        return self.arrivals_read(is_over, read_secure_reply, SecureReply(0, b""))

    def arrivals_read(
        self, is_over: Callable[[], bool], read: Callable[[Message], R], damaged: R
    ) -> Iterator[Arrival[R]]:
        """As :meth:`arrivals`, of any message: ``read`` makes a reply of it, and ``damaged`` stands
        for one that cannot even be unpacked."""
        while self._waiting and not is_over():
            came = False
            for asked, node in [*self._stragglers.items(), *self._waiting.items()]:
                late = asked in self._stragglers
                for reply in self._replies_to(asked, read, damaged):
                    came = True
                    yield Arrival(reply, late, node)
                if is_over():
                    return
            if not came:
                self._clock.sleep(_POLL_S)

    def _replies_to(self, asked: str, read: Callable[[Message], R], damaged: R) -> list[R]:
        """What came in reply to one message.

        One message a call: Flower unpacks replies while it pulls them, and where one cannot be, it
        raises and the others of the same call are lost.
        """
        try:
            messages = list(self._grid.pull_messages([asked]))
            replies = [read(one) for one in messages if one.metadata.reply_to_message_id == asked]
        except _CONNECTION:
            raise
        except Exception:
            _log.exception("a reply could not be unpacked")
            replies = [damaged]
        for waiting in (self._waiting, self._stragglers):
            if replies:
                waiting.pop(asked, None)
        return replies
