"""Classes without training: each text gets the label whose text is nearest to it.

python research/examples/zero_shot_classification.py "wake me at seven" "put on some jazz" \
    --labels "set an alarm" "play music" "check the weather"

With a few labelled texts, tab-separated under the header "label<TAB>text", a linear probe on the
same frozen vectors takes the place of the labels' texts:

python research/examples/zero_shot_classification.py "wake me at seven" --examples labelled.tsv
"""

from __future__ import annotations

import argparse

from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.evaluation.classification import zero_shot_classes
from pocketquery_research.evaluation.labelled_texts import read_labelled_texts
from pocketquery_research.evaluation.linear_probe import linear_probe


def main() -> None:
    """Print each text with its label."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", nargs="+", help="what to classify")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--labels", nargs="+", help="the classes, in words")
    source.add_argument("--examples", help="a file of labelled texts, a few of each class")
    parser.add_argument("--template", default="{}", help='around each label: "a wish to {}"')
    parser.add_argument("--model", default="demo", help="a folder, a Hub name, or demo")
    options = parser.parse_args()

    encoder = SentenceEncoder.load(options.model)
    if options.labels:
        names = options.labels
        found = zero_shot_classes(encoder.encode, names, options.texts, template=options.template)
    else:
        seen = read_labelled_texts(options.examples, label="label")
        names = seen.names
        vectors = encoder.encode(seen.texts), encoder.encode(options.texts)
        found = linear_probe(vectors[0], seen.classes, vectors[1], count=len(names))
    width = max(map(len, names))
    for text, number in zip(options.texts, found, strict=True):
        print(f"{names[number]:{width}}  {text}")


if __name__ == "__main__":
    main()
