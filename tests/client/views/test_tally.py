from __future__ import annotations

import random

from pocketquery.client.views.tally import Tally
from pocketquery.client.views.typing_augmenters import NoiseCase, Typo
from pocketquery.client.views.views import ViewPlan, draw_views
from pocketquery.client.views.word_augmenters import Shuffle


def test_an_augmenter_that_does_nothing_raises_an_alarm() -> None:
    tally, rng = Tally(), random.Random(0)
    plan = ViewPlan(views=4, light=(NoiseCase(),), heavy=(Typo(0.5),))
    assert tally.identity_rates() == {}
    for query in ("東京", "京都", "how to knit", "大阪"):
        tally.add(draw_views(query, rng, plan))
    assert tally.identity_rates()["noise_case"] == 0.75
    assert tally.alarms()[0] == "noise_case"
    quiet = Tally()
    quiet.add(draw_views("how to knit a sock", rng, ViewPlan(heavy=(Shuffle(),))))
    assert quiet.identity_rates() == {"dropout_view": 1.0, "shuffle": 0.0}
    assert quiet.alarms() == []
