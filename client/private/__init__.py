"""The device's side of private rounds: secure sums, noise, and the device's own ledger.

A device, whatever brings it messages, asks
:class:`~pocketquery.client.private.participant.Participant`: ``answer(stage, body, offer)`` is the
one entrance, for Flower (transport.py) and for a gateway (packages/pocketquery-join). The
command ``pocketquery enrol`` is in enrol_command.py. The server computes with the same functions.

    rules                    what a device insists on, whatever the server says
    participant, state_file  its progress in a round, on disk before a reply is sent
    stages                   what it computes in each stage
    ledger                   what rounds have cost its user
    messages, replies        the bodies, down and up; binding: what all devices of a group agree on
    keys, masks, sharing, commitments, encoding, noise   the arithmetic
"""
