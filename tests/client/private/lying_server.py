"""A server that tells devices different things, and devices that lack one of their rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from pocketquery.client.private.binding import Binding
from pocketquery.client.private.keys import (
    AgreementKey,
    RoundSecret,
    derive,
    mask_label,
    self_label,
)
from pocketquery.client.private.masks import RingCodes, add_masks
from pocketquery.client.private.messages import (
    CollectedBoxes as Boxed,
)
from pocketquery.client.private.messages import (
    Confirmation,
    Stage,
    Unmasking,
    survivors_digest,
)
from pocketquery.client.private.replies import Confirmed, Kind, Masked, Shares
from pocketquery.client.private.rules import DeviceRules
from pocketquery.client.private.sharing import join
from pocketquery.sdk.errors import InvalidInputError
from tests.client.private.group import (
    SMALL,
    Group,
    ready_group,
)

SIZE, K, T = 20, 19, 12
C = 2 * T - K - 1
HONEST, COLLUDING = range(SIZE - C), range(SIZE - C, SIZE)
RULES = replace(SMALL, least=10)


@dataclass(frozen=True)
class NoConfirming(DeviceRules):
    """As if there were no stage 4: shares are revealed on a device's own view of the survivors."""

    def of_unmasking(self, binding: Binding, confirmed: int) -> str | None:
        return None


@dataclass(frozen=True)
class NoHeldMarks(DeviceRules):
    """As if there were no held marks: shares of a self seed go to whoever is said to survive."""

    def of_self_shares(self, held: Collection[int], holders: Collection[int]) -> set[int]:
        return set(held)


@dataclass(frozen=True)
class NoComparing(DeviceRules):
    """As if nobody compared the committed neighbours with the boxes that came."""

    def of_confirmation(
        self, binding: Binding, position: int, held: Sequence[int], said: Confirmation
    ) -> str | None:
        near = [one for one in said.committed if one in binding.ring[position]]
        return super().of_confirmation(binding, position, near, said)


@dataclass(frozen=True)
class NeitherOfBoth(NoHeldMarks, NoComparing):
    """Without both; confirm marks are still counted of neighbours alone whose boxes are held."""


@dataclass(frozen=True)
class NoHolding(NeitherOfBoth, NoConfirming):
    """As if a device had no notion of whose boxes it holds. Then it would count the marks of all
    neighbours; the attack brings t genuine ones, so that no count is as good.
    """


def rules(kind: type[DeviceRules]) -> DeviceRules:
    return kind(**{one.name: getattr(RULES, one.name) for one in fields(DeviceRules)})


def complete(kind: type[DeviceRules] = DeviceRules) -> Group:
    return ready_group(SIZE, K, T, rules=rules(kind))


def confirmation(group: Group, survivors: tuple[int, ...]) -> bytes:
    binding, everybody = group.binding, tuple(range(SIZE))
    digest = survivors_digest(binding.digest, everybody, survivors, SIZE)
    return Confirmation(binding.digest, everybody, survivors, digest).to_bytes(binding)


Marks = dict[int, dict[int, bytes]]  # by who made it and for whom


def confirm(group: Group, views: dict[int, tuple[int, ...]]) -> Marks:
    """Each device's marks on the survivors that it is told."""
    found = {}
    for position, survivors in views.items():
        one = group.members[position]
        reply = one.participant.answer(Stage.CONFIRM, confirmation(group, survivors))
        if isinstance(reply, bytes):
            state = one.file.load()
            assert state is not None
            marks = Confirmed.parse(reply, group.binding, len(state.held)).marks
            near = (other.position for other in state.held)
            found[position] = dict(zip(near, marks, strict=True))
    return found


def unmasking(group: Group, position: int, confirms: Marks, held: Marks | None = None) -> bytes:
    """All marks that there are for a device, whatever they are on."""
    binding, near = group.binding, group.binding.ring[position]
    if held is None:
        held = {
            one: dict(zip(binding.ring[one], marks, strict=True))
            for one, marks in group.sum.held.items()
        }
    said, names = (
        {near.index(one): marks[one][position] for one in near if position in marks.get(one, ())}
        for marks in (confirms, held)
    )
    return Unmasking(
        binding.digest, tuple(said), tuple(said.values()), tuple(names), tuple(names.values())
    ).to_bytes(binding)


# I4 and I5 take shares apart: what the server and its colluding devices then know.


@dataclass
class Known:
    """What is restored of devices' secrets, from revealed shares and those of colluding ones."""

    group: Group
    revealed: dict[int, Shares]
    held: dict[int, dict[int, tuple[bytes, bytes]]]

    def secret(self, owner: int, kind: Kind) -> bytes | None:
        """The self seed or the mask key of a device; None where fewer than t shares are known."""
        binding, found = self.group.binding, {}
        for place, other in enumerate(binding.ring[owner], start=1):
            if other in self.held and owner in self.held[other]:
                found[place] = self.held[other][owner][kind - 1]
            elif other in self.revealed:
                share = self.revealed[other].shares[binding.place(other, owner) - 1]
                if share.kind is kind:
                    found[place] = share.value
        try:
            return join(found, T)
        except InvalidInputError:
            return None

    def mask_key(self, owner: int) -> AgreementKey | None:
        if owner in COLLUDING:  # it told
            beta = self.group.binding.digest
            return RoundSecret(self.group.members[owner].secret(beta)).mask_key(beta)
        found = self.secret(owner, Kind.MASK)
        if found is None:
            return None
        key = AgreementKey(found)
        assert key.public == self.group.sum.dealt[owner].mask_public
        return key

    def sum_of(
        self, few: Collection[int], changes: dict[int, Masked], others: Collection[int]
    ) -> RingCodes | None:
        """The sum of the changes of a few honest devices, without the masks that they share with
        ``others``; None where a secret for it is missing.
        """
        group, beta = self.group, self.group.binding.digest
        total: RingCodes = np.zeros_like(changes[next(iter(few))].codes)
        for one in few:
            total = total + changes[one].codes
            seed = self.secret(one, Kind.SELF)
            if seed is None:
                return None
            total = add_masks(total, one, derive(seed, self_label(beta)), {}, sign=-1)
            for other in others:
                key = self.mask_key(other)
                if key is None:
                    return None
                public = group.sum.dealt[one].mask_public
                pair = {other: derive(key.agree(public), mask_label(beta))}
                total = add_masks(total, one, b"", pair, sign=-1)
        return total


def known(group: Group, confirms: Marks, held: Marks, asked: Collection[int]) -> Known:
    """Ask honest devices for shares; what colluding ones hold is known anyway."""
    shares = {}
    for one in COLLUDING:
        state = group.members[one].file.load()
        assert state is not None
        shares[one] = {h.position: (h.self_share, h.mask_share) for h in state.held}
    revealed = {}
    for position in asked:
        body = unmasking(group, position, confirms, held)
        reply = group.members[position].participant.answer(Stage.UNMASK, body)
        if isinstance(reply, bytes):
            revealed[position] = Shares.parse(reply, group.binding)
    return Known(group, revealed, shares)


def collected(group: Group, boxes: dict[int, tuple[int, ...]]) -> tuple[dict[int, Masked], Marks]:
    """Masked changes and held marks; devices in ``boxes`` get those of these neighbours alone."""
    changes, held, binding = {}, {}, group.binding
    for position in range(SIZE):
        near = binding.ring[position]
        said = Boxed.parse(group.sum.message(position), binding)
        if position in boxes:
            places = tuple(near.index(one) for one in boxes[position])
            said = replace(said, members=places, boxes=tuple(said.boxes[one] for one in places))
        reply = group.answer(position, said.to_bytes(binding))
        assert isinstance(reply, bytes), reply
        changes[position] = Masked.parse(reply, binding, len(said.members))
        givers = (near[place] for place in said.members)
        held[position] = dict(zip(givers, changes[position].held, strict=True))
    return changes, held


def rotating() -> tuple[dict[int, tuple[int, ...]], list[int]]:
    """A view for each honest device: t others survive, and k - t of the honest are gone, dealt so
    that of (g - c)(k - t) / (t - c) of them t - c devices are told that they are gone.
    """
    targets = list(range(len(HONEST) * (K - T) // (T - C)))
    views = dict.fromkeys(range(SIZE), tuple(range(SIZE)))
    for one in HONEST:
        gone = {target for target in targets if (one - target) % 2}
        assert len(gone) == K - T
        views[one] = tuple(other for other in range(SIZE) if other not in gone)
    return views, targets
