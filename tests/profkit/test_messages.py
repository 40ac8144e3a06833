"""One catalogue, two languages: what is said in Chinese holds no sentence of the English side, and the other way round."""

import json
import re
from pathlib import Path

import pytest
from synthetic_runs import kernel, make_run

from collectors import READERS
from profkit.report.compare import Chosen, Compared, ladder_of
from profkit.report.dialects import DIALECTS, tensorrt
from profkit.report.dialects.paddle import Case, report
from profkit.report.dialects.pr import snippet
from profkit.report.messages import catalogue, in_each, named, say, speaking
from profkit.report.page.compare import page_of
from profkit.report.page.frame import SCRIPTS
from profkit.report.page.run import page
from profkit.study.study import open_study

ROOT = Path(__file__).parents[2]
H200 = ROOT / "examples/h200"


@pytest.fixture
def plain(tmp_path):
    """A run without counters, one candidate slower, and one with them."""
    bare = make_run(tmp_path / "bare", {"reference": 2e-4, "cuda": 3e-4})
    rows = [
        kernel("reference", "r(int)", 3e-4, dram_bytes=6e8, flop_fp32=1e9),
        kernel("cuda", "k(int)", 2e-4, dram_bytes=4e8, flop_fp32=1e9),
    ]
    return bare, make_run(tmp_path / "counted", {"reference": 3e-4, "cuda": 2e-4}, rows)


def shown(text, lang):
    """What a reader of one language sees of a page: the spans and the script's words of the other are left out."""
    other = "zh-CN" if lang == "en" else "en"
    text = re.sub(
        rf'<(span|button)[^>]* lang="{other}"[^>]*>.*?</\1>|<span lang="{other}">.*?</span>', "", text, flags=re.S
    )
    head, start, rest = text.partition('<script type="application/json" id="data">')
    data, end, tail = rest.partition("</script>")
    return head + start + json.dumps(of_language(json.loads(data), lang), ensure_ascii=False) + end + tail


def of_language(data, lang):
    """The script's data with the words of one language, and of each pair of them the one that is shown."""
    bounds = [{**one, **{name: one[name][lang == "zh"] for name in ("bound", "roof")}} for one in data["kernels"]]
    return {**data, "words": data["words"]["en" if lang == "en" else "zh-CN"], "kernels": bounds}


def reports(run, lang):
    chosen = [Chosen(run, "reference"), Chosen(run, "cuda")]
    inputs = tensorrt.WriteUp(chosen, ladder_of(chosen), figure="ladder.png", others=[run])
    return {
        "pr": snippet(run),
        "html": shown(page(run), lang),
        "compare": shown(page_of(Compared((run, run), ladder_of(chosen), tuple(chosen)), 0.05), lang),
        "tensorrt": inputs.text(),
        "paddle": report([Case("", "", "", 2e-3, 1e-3, 3e-3)]),
    }


@pytest.mark.parametrize("which", [0, 1], ids=["bare", "counted"])
def test_english_reports_hold_no_chinese(plain, which):
    for name, text in reports(plain[which], "en").items():
        assert not re.search(r"[一-鿿]", text), name


def test_every_key_and_sentence_has_both_languages_with_the_same_places():
    for key, texts in [
        *catalogue().say.items(),
        *((one, (one, other)) for one, other in catalogue().sentences.items()),
    ]:
        assert len(texts) == 2, key
        assert all(texts), key
        assert texts[1] != key or key not in catalogue().sentences
        places = [sorted(re.findall(r"\{\w+\}", text)) for text in texts]
        assert places[0] == places[1], key


def test_every_format_says_how_its_times_were_taken():
    assert {f"times_{name}" for name in READERS} <= set(catalogue().say)


def test_every_place_of_the_page_is_filled():
    text = in_each(lambda: page(open_study(H200 / "ICGRMS")))[1]
    assert "{{" not in text
    assert "{%" not in text
    assert '<html lang="zh-CN">' in text


def test_every_word_of_the_script_is_in_the_catalogue():
    script = "".join((ROOT / f"profkit/report/templates/{name}.js").read_text("utf-8") for name in SCRIPTS)
    used = set(re.findall(r'\bt[xy]\("(\w+)"', script))
    there = {key[3:] for key in catalogue().say if key.startswith("js_")}
    assert used == there


def test_words_of_the_data():
    with speaking("zh"):
        assert named("latency") == "延迟"
        assert named("tensor_bf16") == "Tensor Core 算力（bf16）"
        assert named("some_counter") == "some_counter"
    assert named("latency") == "latency"
    with pytest.raises(KeyError):
        say("no such message")


@pytest.mark.slow
def test_the_languages_reach_every_dialect():
    for name in ("pr", "html", "tensorrt"):
        assert "为理论下限的" in DIALECTS[name].document([str(H200 / "ICKGLU")], "zh").text, name
