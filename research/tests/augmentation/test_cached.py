from __future__ import annotations

import multiprocessing
import pickle
import random
from pathlib import Path

import pytest

from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import AugResult
from pocketquery.client.views.views import ViewPlan, draw_views
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE
from pocketquery.server.objectives.query_views import QueryViews, augmenters_of
from pocketquery_research.augmentation.cached import Cached
from pocketquery_research.augmentation.fill import fill
from pocketquery_research.augmentation.variant_cache import VariantCache
from tests.tiny_models import sentences

QUERIES = ["how do i knit a sock", "what is a quark"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    with VariantCache(tmp_path / "views.sqlite") as cache:
        fill(cache, choose("template", CATALOGUE), QUERIES, variants=6)
        fill(cache, choose("shuffle"), QUERIES)
    return str(tmp_path / "views.sqlite")


def test_variants_are_drawn_without_their_augmenter(path: str) -> None:
    cached = Cached(path, "template")
    assert (cached.name, cached.strength) == ("template", "light")
    assert cached.languages == frozenset({"en"})
    assert cached.requires == (path,)
    with VariantCache(path, read_only=True) as cache:
        kept = cache.variants(QUERIES[0], cache.one_named("template").identity)
    found = {cached.augment(QUERIES[0], random.Random(seed)).text for seed in range(60)}
    assert found == set(kept.values())
    assert len(found) > 2
    assert Cached(path, "shuffle").strength == "heavy"


def test_a_text_without_variants_comes_back(path: str) -> None:
    made = Cached(path, "template").augment("unknown", random.Random(0))
    assert made == AugResult("unknown", changed=False, meta={"cached": False})


def test_an_absent_cache_or_augmenter_is_said(path: str, tmp_path: Path) -> None:
    assert Cached(path, "template").available() == (True, "")
    assert "no variants by 'typo'" in Cached(path, "typo").available()[1]
    assert "no such cache" in Cached(str(tmp_path / "absent"), "typo").available()[1]
    with pytest.raises(InvalidInputError, match="the text"):
        Cached(path, "template").augment(None, random.Random(0))  # type: ignore[arg-type]


def _drawn(cached: Cached) -> list[str]:
    return [cached.augment(text, random.Random(3)).text for text in QUERIES]


def test_workers_read_it_too(path: str) -> None:
    cached = Cached(path, "template")
    here = _drawn(cached)  # opened before the fork
    if "fork" in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(_drawn, [cached] * 4) == [here] * 4
    assert _drawn(pickle.loads(pickle.dumps(cached))) == here


def test_query_bert_draws_from_it_by_name(path: str) -> None:
    choice = f'[{{"name": "cached", "path": "{path}", "augmenter": "template"}}]'
    light, heavy = augmenters_of(choice), augmenters_of("shuffle")
    views = QueryViews("all_directional", light, heavy)
    drawn = views.draw(Group("q", (QUERIES[0],), lang="en"), random.Random(0))
    assert drawn is not None
    assert [view.made_by for view in drawn] == ["template", "template", "shuffle", "shuffle"]
    assert drawn[0].changed


def test_a_heavy_cache_is_no_light_one(path: str) -> None:
    with pytest.raises(InvalidInputError, match="'shuffle' is heavy"):
        ViewPlan(views=4, light=(Cached(path, "shuffle"),))
    plan = ViewPlan(views=4, light=(Cached(path, "template"),), heavy=(Cached(path, "shuffle"),))
    drawn = draw_views(sentences(1)[0], random.Random(0), plan)
    assert not any(view.changed for view in drawn)
