"""The page: whole, escaped, small; and in a browser, when there is one: no error, hover, sorting, keyboard."""

import base64
import json
import re
import time
from pathlib import Path

import browser
import numpy as np
import pytest
from synthetic_runs import kernel, make_run

from profkit.record.importing import import_files
from profkit.report.messages import speaking
from profkit.report.page.run import page
from profkit.report.sections import caveats
from profkit.study.study import Study, open_study

ROOT = Path(__file__).parents[2]
H200 = ROOT / "examples/h200"

EVIL = 'void k<"a&b", </script><img src=x onerror=alert(1)>>(float*)@@js@@'


def some_run(folder, rows=None):
    rows = rows or [
        kernel("reference", "gemm_ref(float*)", 3e-4, flop_fp32=6e9, dram_bytes=4e8, l2_bytes=9e8),
        kernel("reference", "copy_ref(float*)", 1e-4, dram_bytes=3e8),
        kernel("cuda", EVIL, 2e-4, flop_fp32=6e9, dram_bytes=4e8, l2_bytes=6e8),
    ]
    return make_run(folder, {"reference": 4e-4, "cuda": 2e-4}, rows)


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_the_page_holds_everything_and_no_address(tmp_path):
    text = page(some_run(tmp_path / "r"))
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", text)
    assert "default-src 'none'" in text
    assert text.count("<script") == text.count("</script>") == 2
    data = embedded(text)
    assert [k["impl"] for k in data["kernels"]] == ["cuda", "reference", "reference"]
    assert data["kernels"][0]["kernel"] == EVIL
    for question in (
        "Correct?",
        "Faster than the reference? How sure?",
        "Time now, how far to go?",
        "Bound by",
        "Can I trust it?",
        "What next",
    ):
        assert question in text


def english(text):
    """What a reader of English sees, without tags."""
    text = re.sub(r'<span lang="zh-CN">.*?</span>', "", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def part_of(text, start, end):
    return english(text[text.index(start) : text.index(end, text.index(start))])


def test_the_first_block_answers_about_the_best_then_the_reference_then_the_others():
    text = page(open_study(H200 / "ICJTRP"))
    top = part_of(text, '<section id="answer"', "</section>")
    assert "cuda: correct, faster: 2.86x [2.86, 2.88]" in top
    for card in (
        "yes 5 of 5 fresh inputs agree with the reference",
        "faster: 2.86x 95 % interval [2.86, 2.88], 48 samples",
        "161 us 1.34x the lower bound of 120 us",
        "dram 71.7% of its ceiling",
        "no caveats on this result",
        "Not checked, counters missing: stalls, divergence, bank-conflicts, local-memory, atomics, issue-bound. To collect them: profkit profile S1/ICJTRP --deep",
        "up to 25.4% (40.9 us) (transpose_kernel): DRAM-bound with headroom: at 72% of the DRAM ceiling, which plain copies nearly reach",
    ):
        assert card in top
    names = re.findall(r'<tr[^>]*><td><span lang="en">(\w+) \(', text[: text.index('<section id="time"')])
    assert names == ["cuda", "reference", "ori"]


def test_a_share_is_of_the_roof_that_binds_and_no_plot_is_promised_where_there_is_none():
    """Said before: 25.3 % of its ceiling, of a copy that L2 binds; pick it in the plot, of a page with bars alone."""
    text = page(open_study(H200 / "ICJTRP"))
    top = part_of(text, '<section id="answer"', "</section>")
    assert "of its ceiling 65.8% bound by l2" in top
    assert "of its ceiling 44.0% (l2) bound by latency" in top
    assert "in the plot" not in text
    assert "None of these kernels has FLOP" in text
    ladder = page(open_study(ROOT / "examples/transformer_ladder/runs/batch8"))
    assert "highlight it" in ladder
    assert "None of these kernels has FLOP" not in ladder


def test_what_is_not_right_says_so_first(tmp_path):
    run = some_run(tmp_path / "r")
    impl = run.manifest.candidates[0]
    impl.status, impl.reason = "mismatch", "out: 3 of 9 elements differ"
    top = part_of(page(run), '<section id="answer"', "</section>")
    assert "mismatch: out: 3 of 9 elements differ" in top


def test_a_caveat_matters_when_the_answer_rests_on_it():
    study = open_study(H200 / "ICFSMX")
    assert [one.what for one in caveats.that_matter(study)] == ["reference: the time drifts during the measurement"]
    assert {one.code for one in caveats.all_caveats(study)} == {"", "fp16-vectors"}
    text = page(study)
    assert "1 caveat" in part_of(text, '<section id="answer"', "</section>")
    listed = part_of(text, '<section id="caveats"', "</section>")
    assert listed.index("the time drifts") < listed.index("more, about other implementations")
    # What is said of the distance to the lower bound alone, or of a beaten candidate, is no caveat about the answer.
    assert caveats.all_caveats(open_study(H200 / "ICKGLU"))
    assert caveats.that_matter(open_study(H200 / "ICKGLU")) == []


def test_findings_of_the_winner_stand_open_and_the_others_behind_a_fold():
    text = page(open_study(ROOT / "examples/transformer_ladder/runs/batch8"))
    part = text[text.index('<section id="findings"') : text.index('<section id="roofline"')]
    before = part[: part.index('<details class="of"')]
    assert before.count("<article") == 3
    assert "fuse the remaining kernels between the computing ones by hand" in before
    assert part.count('<details class="of"') == 5
    # What a finding could win beyond those above it stands there where it is less.
    assert "overlaps with the findings above" in page(open_study(H200 / "ICVXKH"))


def test_a_run_without_counters_has_a_page(tmp_path):
    text = page(make_run(tmp_path / "r", {"reference": 4e-4, "cuda": 2e-4}))
    assert "hardware counters are missing" in text
    # Calls as a whole stand on the roofline, and no table lists them as kernels.
    assert embedded(text)["whole"]
    assert [one["kernel"] for one in embedded(text)["kernels"]] == ["cuda", "reference"]


def many(folder, count=2000):
    rng = np.random.default_rng(3)
    name = "void at::native::elementwise_kernel<" + "long_template_argument, " * 20 + "{}>(int)"
    rows = [
        kernel("cuda", name.format(i), t, flop_fp32=t * f, dram_bytes=t * b, l2_bytes=t * b * 2)
        for i, (t, f, b) in enumerate(
            zip(
                10 ** rng.uniform(-6, -4, count),
                10 ** rng.uniform(9, 13, count),
                10 ** rng.uniform(10, 12.5, count),
                strict=True,
            )
        )
    ]
    return make_run(
        folder,
        {"reference": 0.5, "cuda": 0.2},
        [kernel("reference", "r()", 0.5, flop_fp32=1e9, dram_bytes=1e9), *rows][:count],
    )


needs_browser = pytest.mark.skipif(browser.find() is None, reason="no chromium here")
CENTRE = """(() => {{ const m = document.querySelector('.mark[data-k="{}"]'); m.scrollIntoView({{block: "center", behavior: "instant"}});
const r = m.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"""
COLUMN = "[...document.querySelectorAll('#table tbody tr')].map((r) => r.cells[{}].textContent)"


@needs_browser
def test_in_a_browser(tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page(some_run(tmp_path / "r")), "utf-8")
    with browser.open_browser() as tab:
        tab.goto(file)
        assert tab.problems() == []
        assert tab.js("document.querySelectorAll('.mark').length") == 2
        for index, name in ((1, "gemm_ref(float*)"), (0, EVIL)):
            tab.mouse(*tab.js(CENTRE.format(index)))
            assert tab.js("document.querySelector('#tip b').textContent") == name
            assert tab.js("!document.getElementById('tip').hidden")
        check_sorting(tab)
        check_keyboard(tab)
        check_toggles(tab)
        assert tab.problems() == []


def heads(tab):
    return tab.js("[...document.querySelectorAll('#table th')].map((h) => h.textContent)")


def check_sorting(tab):
    head = "document.querySelectorAll('#table th')[{}]"
    at = heads(tab).index("time [us]")
    for order in ("descending", "ascending"):
        tab.js(head.format(at) + ".querySelector('button').click()")
        assert tab.js(head.format(at) + ".getAttribute('aria-sort')") == order
    times = [float(cell) for cell in tab.js(COLUMN.format(at))]
    assert len(times) == 3
    assert times == sorted(times)
    tab.js(head.format(1) + ".querySelector('button').focus()")
    tab.key("Enter", 13)
    tab.js(head.format(1) + ".querySelector('button').click()")
    assert tab.js(head.format(1) + ".getAttribute('aria-sort')") in ("ascending", "descending")
    assert tab.js(head.format(at) + ".getAttribute('aria-sort')") is None


def check_keyboard(tab):
    tab.js("document.getElementById('plot').focus()")
    seen = set()
    for _ in range(2):
        tab.key("ArrowRight", 39)
        seen.add(tab.js("document.getElementById('live').textContent").split(":")[0])
    assert len(seen) == 2
    tab.key("Enter", 13)
    assert tab.js("document.querySelectorAll('tr.picked').length") == 1
    tab.key("Escape", 27)
    assert tab.js("document.querySelectorAll('tr.picked').length") == 0


def check_toggles(tab):
    count = "document.querySelectorAll('.mark').length"
    tab.js("document.getElementById('t-l2').click()")
    assert tab.js("document.querySelectorAll('.mark.far').length") == 2
    assert tab.js("document.querySelectorAll('.join').length") == 2
    tab.js("document.getElementById('t-dram').click()")
    assert tab.js(count) == 2
    tab.js("document.getElementById('t-reference').click()")
    assert tab.js(count) == 1
    for name in ("reference", "dram", "l2"):
        tab.js(f"document.getElementById('t-{name}').click()")
    filter_ = "const f = document.getElementById('filter'); f.value = '{}'; f.dispatchEvent(new Event('input'))"
    tab.js("{" + filter_.format("gemm") + "}")
    assert [name.split("gemm_ref(")[0] for name in tab.js(COLUMN.format(1))] == ["gemm_ref"]
    tab.js("{" + filter_.format("") + "}")


def opened_page(tab, folder, run, lang="en", width=1200):
    file = folder / "report.html"
    with speaking(lang):
        file.write_text(page(run), "utf-8")
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    tab.goto(file)
    assert tab.problems() == []


@pytest.mark.slow
@needs_browser
def test_a_block_of_the_waterfall_leads_to_everything_about_it(tmp_path):
    with browser.open_browser() as tab:
        opened_page(tab, tmp_path, open_study(ROOT / "examples/transformer_ladder/runs/batch8"))
        # Outlines tell the parts apart without their colour.
        keys = "[...document.querySelectorAll('.stackrow .key')].map((k) => k.innerHTML.replace(/style.*?>/, ''))"
        assert len(set(tab.js(keys))) == len(tab.js(keys)) == 5
        row = "[...document.querySelectorAll('.fall:not([hidden]) .row')].find((r) => r.textContent.includes('{}'))"
        tab.js(row.format("attention fprop") + ".click()")
        assert "cudnn_generated_fort_native_sdpa" in tab.js("document.querySelector('.told .k').textContent")
        assert "the tensor pipe is underused" in tab.js("document.querySelector('.finding.on .title').textContent")
        assert tab.js("[...document.querySelectorAll('.mark.on')].length") == 1
        assert tab.js("document.querySelector('tr.picked .pick span').textContent") == "attention fprop (cuDNN)"
        # Picked alone, the plot shows nothing else; pressed again, all is back.
        tab.js("document.getElementById('alone').click()")
        assert tab.js("document.querySelectorAll('.mark').length") == 1
        tab.js(row.format("attention fprop") + ".click()")
        assert tab.js("document.querySelectorAll('.told').length") == 0
        # Another implementation's waterfall, and its kernels in the plot.
        tab.js("document.querySelector('.stackrow[data-part=tf32]').click()")
        assert tab.js("document.querySelector('.fall:not([hidden])').dataset.part") == "tf32"
        assert tab.js("document.getElementById('t-tf32').checked")
        assert tab.problems() == []


@needs_browser
def test_the_plot_shows_the_best_in_front_and_names_its_kernels(tmp_path):
    with browser.open_browser() as tab:
        opened_page(tab, tmp_path, open_study(ROOT / "examples/transformer_ladder/runs/batch8"))
        shown = tab.js("[...document.querySelectorAll('#controls input:checked')].map((b) => b.id)")
        assert {"t-compiled", "t-reference"} <= set(shown)
        assert not {"t-bf16", "t-sdpa", "t-tf32"} & set(shown)
        last = tab.js("[...document.querySelectorAll('.mark')].at(-1).dataset.k")
        assert tab.js("document.querySelectorAll('#plot .nm.best').length") >= 4
        data = tab.js("JSON.parse(document.getElementById('data').textContent).kernels.map((k) => k.impl)")
        assert data[int(last)] == "compiled"
        # The share-of-time slider leaves the longest.
        everything = tab.js("document.querySelectorAll('.mark').length")
        tab.js("{const s = document.getElementById('cover'); s.value = 50; s.dispatchEvent(new Event('input'));}")
        assert 0 < tab.js("document.querySelectorAll('.mark').length") < everything
        # The picture that is saved carries its own style.
        tab.js("window.saved = []; URL.createObjectURL = (b) => { window.saved.push(b); return 'data:,'; }; 0")
        tab.js("[...document.querySelectorAll('#controls button')].find((b) => b.textContent === 'SVG').click()")
        text = tab.js("window.saved[0].text()")
        assert text.startswith("<svg")
        # Below it what it is of, and whose the outlines are.
        assert "transformer_ladder in bf16 on NVIDIA H200</text>" in text
        assert all(f">{name}</text>" in text for name in ("reference", "compiled"))
        assert ">bf16</text>" not in text
        assert "var(--" not in re.sub(r'style="fill: ?var', "", text).split("<circle")[0]
        tab.js("[...document.querySelectorAll('#controls button')].find((b) => b.textContent === 'PNG').click()")
        wait(tab, "window.saved.length === 2")
        assert tab.js("window.saved[1].type") == "image/png"
        assert tab.problems() == []


def wait(tab, condition):
    end = time.monotonic() + 60
    while not tab.js(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


@pytest.mark.slow
@needs_browser
def test_the_language_changes_in_the_page(tmp_path):
    with browser.open_browser() as tab:
        opened_page(tab, tmp_path, open_study(H200 / "ICVXKH"))
        visible = "document.querySelector('main').innerText"
        assert not re.search(r"[一-鿿]", tab.js(visible))
        tab.js("document.querySelector('[data-lang=zh-CN]').click()")
        assert tab.js("document.documentElement.lang") == "zh-CN"
        chinese = tab.js(visible)
        assert "结果正确吗" in chinese
        assert "时间花在哪里" in chinese
        assert "Where the time goes" not in chinese
        assert "in fp32，NVIDIA H200（ICVXKH）" in tab.js("document.title")
        assert "占时间" in tab.js("document.getElementById('plot').textContent")
        tab.js("document.querySelector('[data-lang=en]').click()")
        assert not re.search(r"[一-鿿]", tab.js(visible))
        assert tab.problems() == []


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("which", ["ICJTRP", "ladder"])
def test_a_phone_scrolls_nothing_sideways_and_paper_takes_four_pages(tmp_path, which):
    run = open_study(H200 / which if which != "ladder" else ROOT / "examples/transformer_ladder/runs/batch8")
    with browser.open_browser() as tab:
        opened_page(tab, tmp_path, run, width=390)
        assert tab.js("document.documentElement.scrollWidth") == 390
        boxes = "[...document.querySelectorAll('.scroll')].map((b) => b.scrollWidth - b.clientWidth)"
        assert all(over <= 1 for over in tab.js(boxes))
        if which == "ladder":
            # Text of the plot is drawn at its own size, not shrunk with it.
            height = "document.querySelector('#plot .nm').getBoundingClientRect().height"
            assert tab.js(height) > 11
        paper = tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)["data"]
        assert len(re.findall(rb"/Type\s*/Page[^s]", base64.b64decode(paper))) <= 4
        assert tab.problems() == []


@pytest.mark.slow
@needs_browser
def test_two_thousand_kernels_in_a_browser(tmp_path):
    file = tmp_path / "report.html"
    text = page(many(tmp_path / "r"))
    assert len(text.encode()) < 3_000_000
    file.write_text(text, "utf-8")
    with browser.open_browser() as tab:
        tab.goto(file)
        assert tab.problems() == []
        assert tab.js("document.querySelectorAll('#table tbody tr').length") == 60
        tab.js("document.querySelector('#every').click()")
        assert tab.js("document.querySelectorAll('#table tbody tr').length") == 2000
        at = heads(tab).index("TFLOP/s")
        tab.js(f"document.querySelectorAll('#table th button')[{at}].click()")
        values = [float(cell) for cell in tab.js(COLUMN.format(at)) if cell != "-"]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("lang", "wanted"), [("en", "of GPU time"), ("zh", "占 GPU 时间")])
def test_the_page_of_an_import_answers_about_its_longest_kernel(tmp_path, lang, wanted):
    """No candidates, no verdict: what took the time, what binds it, what next."""
    run = Study(import_files([H200 / "ICGRMS" / "ncu.csv"], tmp_path / "their-run").run)
    with speaking(lang):
        text = page(run)
    top = text[text.index('<dl class="answer">') : text.index("</dl>")]
    assert "(ATen)" in top
    assert wanted in top
    assert "ATen" in text or "PyTorch" in text
    assert "no candidate could run" not in text
    assert "没有候选实现" not in text


CONTRAST = """
(() => {
  const parts = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((a, v, i) => a + v * [.2126, .7152, .0722][i], 0);
  const ground = parts(getComputedStyle(document.body).backgroundColor);
  const weak = [];
  for (const one of document.querySelectorAll("svg text")) {
    const style = getComputedStyle(one);
    if (!one.textContent.trim() || !one.getClientRects().length || style.visibility === "hidden") continue;
    const [a, b] = [light(parts(style.fill)), light(ground)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) weak.push(`${one.textContent}: ${style.fill} ${ratio.toFixed(2)}`);
  }
  return weak;
})()
"""


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["examples/transformer_ladder/runs/batch8", "examples/h200/ICNPLY"])
def test_words_in_pictures_stand_out(tmp_path, scheme, place):
    """WCAG AA for the text of SVG, of which a checker of pages does not know what lies under it."""
    with browser.open_browser() as tab:
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        opened_page(tab, tmp_path, open_study(ROOT / place))
        assert tab.js("document.querySelectorAll('svg text').length") > 10
        assert tab.js(CONTRAST) == []


@pytest.mark.slow
@needs_browser
def test_the_address_holds_what_is_picked_and_filtered(tmp_path):
    with browser.open_browser() as tab:
        opened_page(tab, tmp_path, open_study(ROOT / "examples/transformer_ladder/runs/batch8"))
        tab.js("[...document.querySelectorAll('.pick')].find((b) => b.textContent.startsWith('gelu_view')).click()")
        tab.js("document.getElementById('filter').value = 'triton'")
        tab.js("document.getElementById('filter').dispatchEvent(new Event('input'))")
        state = tab.js("decodeURIComponent(location.hash)")
        assert state == "#pick=compiled:+gelu_view+(Triton)&find=triton"
        tab.js("location.hash = '#pick=tf32:+gelu+(ATen)&find=gelu'")
        wait(tab, "document.getElementById('filter').value === 'gelu'")
        assert tab.js("[...document.querySelectorAll('tr.picked')].map((r) => r.cells[0].innerText)") == ["tf32"]
        assert tab.problems() == []
