"""Private rounds on the server: secure sums and the budget of noise.

The room knows no journal, no Flower app and no gateway; it is entered through two seams:

- A round asks stages.py: :class:`~pocketquery.server.private.stages.PrivateStages` begins a round
  within its budget and drives the five stages; what it needs of the open round is the protocol
  ``Round`` of open_round.py, which orchestration/private_collector.py fulfils. tables.py
  and budget.py are the rows that the journal keeps of it.
- A device asks nothing of the server. What it receives and answers is in client/private.

    settings      how private rounds are run
    secure_round  a round as a value: who is ready, groups, their sums
    coordinator   one group through the stages; unmasking.py ends it
    readiness     whether a device that says it is ready counts
    accounting    epsilon of noise, against each adversary; budget.py has the seasons' ledger
"""
