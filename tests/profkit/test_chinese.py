"""What the Chinese reports say is Chinese: every caveat of the source is known to the catalogue, and of recorded runs no
report, write-up or page holds an English sentence."""

import ast
import html
import itertools
import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from markupsafe import escape
from recorded import opened

from analyzers.verdicts.verdict import Evidence, decide
from profkit.cli.group import invoke
from profkit.report.compare import Compared, choose, ladder_of
from profkit.report.dialects import agent, paddle, pr, tensorrt
from profkit.report.messages import in_chinese, in_each, spaced, speaking
from profkit.report.page.compare import page_of
from profkit.report.page.run import page
from profkit.study.study import open_study

ROOT = Path(__file__).parents[2]
H200, LADDER = ROOT / "examples/h200", ROOT / "examples/transformer_ladder/runs"
HOUSES = ("profkit", "collectors", "analyzers", "roofline")
CHINESE = re.compile(r"[一-鿿]")
EXPONENT = re.compile(r"\d[eE][+-]\d\d")
"""A number as machines write it: 5.36871e+08."""

# ---- every caveat that the source can make

PLACE, FIELDS = "\0", ("what", "how_much", "fix")
SAME = {"-t cuda,nvtx", "--exportProfile"}
"""Options alone, the same in both languages."""


def texts(node, scopes, depth=0):
    """What a string expression can be, PLACE for each value in it; [] where that is not known."""
    deeper = depth + 1
    if depth > 6:
        return []
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(one) for one in itertools.product(*(piece(part, scopes, deeper) for part in node.values))]
    if isinstance(node, ast.IfExp):
        return texts(node.body, scopes, deeper) + texts(node.orelse, scopes, deeper)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in texts(value, scopes, deeper)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [texts(side, scopes, deeper) or [PLACE] for side in (node.left, node.right)]
        return ["".join(one) for one in itertools.product(*sides)]
    if isinstance(node, ast.Name):
        return next(
            (
                found
                for scope in scopes
                if (found := [t for v in scope.get(node.id, ()) for t in texts(v, scopes, deeper)])
            ),
            [],
        )
    return []


def piece(node, scopes, depth):
    """A part of an f-string: its text, the sentences a value of it can be, or a place."""
    if isinstance(node, ast.Constant):
        return [node.value]
    inner = texts(node.value, scopes, depth) if isinstance(node.value, (ast.IfExp, ast.Name)) else []
    return inner if inner and all(PLACE not in one and (" " in one or not one) for one in inner) else [PLACE]


def assigned(body):
    """Name -> the expressions it is given in a function, or on the top of a module."""
    nodes = ast.walk(body)
    if isinstance(body, ast.Module):
        tops = (one for one in body.body if not isinstance(one, (ast.FunctionDef, ast.ClassDef)))
        nodes = (node for top in tops for node in ast.walk(top))
    found = {}
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    found.setdefault(name.id, []).append(value)
    return found


def made(node):
    """The fields of a caveat that is made here: Caveat(...), self._caveat(...), send("caveat", ...), {"what": ..., ...}."""
    if isinstance(node, ast.Dict):
        pairs = {
            key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
        return pairs if {"what", "how_much"} <= set(pairs) else {}
    if not isinstance(node, ast.Call):
        return {}
    said = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == "caveat"
    if getattr(node.func, "id", "") != "Caveat" and getattr(node.func, "attr", "") != "_caveat" and not said:
        return {}
    named = {one.arg: one.value for one in node.keywords if one.arg in FIELDS}
    return named if said else dict(zip(FIELDS, node.args, strict=False)) | named


def sentences(file):
    """(line, sentence) of every caveat a file makes."""
    tree = ast.parse(file.read_text("utf-8"))

    def walk(node, scopes):
        for child in ast.iter_child_nodes(node):
            inner = [assigned(child), *scopes] if isinstance(child, ast.FunctionDef) else scopes
            for name, value in made(child).items():
                if name in FIELDS:
                    yield from ((child.lineno, text) for text in texts(value, inner))
            yield from walk(child, inner)

    return walk(tree, [assigned(tree)])


def test_every_caveat_of_the_source_stands_in_the_catalogue():
    seen, missing = 0, []
    for file in (path for house in HOUSES for path in sorted((ROOT / house).rglob("*.py"))):
        if not re.search(r"[Cc]aveat", file.read_text("utf-8")):
            continue
        for line, sentence in sentences(file):
            # Numbers fill any place but that of a name in front; what is but numbers and signs needs no words.
            filled = re.sub(PLACE, "7", re.sub(f"^{PLACE}(?=[a-z])", "", sentence))
            words = [one for one in re.findall(r"[A-Za-z]{2,}", sentence) if one not in ("MHz", "MB", "in")]
            seen += bool(words)
            if words and filled not in SAME and not CHINESE.search(in_chinese(filled)):
                missing.append(f"{file.relative_to(ROOT)}:{line}: {sentence.replace(PLACE, '{}')}")
    assert seen > 250
    assert missing == [], "add them to profkit/report/messages.toml"


SENTENCES = """
the SM clock differs => SM 频率不同
cuda: a speed-up above 10x is rare for the same work => cuda：同样的工作量，加速比很少超过 10 倍
measured, torch 2.11, driver 580, random data; upper quartile of 20 rounds x 31 runs =>
    实测，torch 2.11，驱动 580，随机数据；20 轮、每轮 31 次的上四分位数
exit code 139 => 退出码 139
a 5.01% after 10, b unknown after 8, c 27.1% after 10 =>
    a：10 次测量后为 5.01%，b：8 次测量后仍未知，c：10 次测量后为 27.1%
compile-error: main.cpp:16:9: error: expected ‘;’ => 编译失败：main.cpp:16:9：错误：expected ‘;’
perf_counter round the call, 2 threads => 用 perf_counter 在调用前后计时，2 个线程
one of them => one of them
ignores weight, bias of LayerNorm (norm): right only for the initial values =>
    忽略了 weight, bias of LayerNorm (norm)：只对构造时的取值正确
inputs times 1e3: output: 9 of 12 elements are NaN where the reference is not =>
    放大到 1e3 倍的输入：output：12 个元素中有 9 个为 NaN，而参考实现不是
output: 2 of 4 elements are not NaN where the reference is => output：4 个元素中有 2 个不是 NaN，而参考实现是
output: 2 of 4 elements are finite where the reference is infinite =>
    output：4 个元素中有 2 个是有限数，而参考实现为无穷大
a timed call left no answer => 计时的调用没有留下结果
output: 2 of 4 elements are infinite with the other sign => output：4 个元素中有 2 个无穷大的符号相反
in a timed call: output[0]: 3 of 4 elements differ, the worst by 0.5 (rms 1) =>
    在计时的调用中：output[0]：4 个元素中有 3 个不符，最大相差 0.5（均方根 1）
gives an input as it came, which is right only for the drawn inputs; wrong for inputs times 10 =>
    给出原样返回的输入，只对抽取的输入碰巧正确；对放大到 10 倍的输入不正确
rows in order of size: zeros; inputs times 10: ones => 各行按大小排序的输入：全零；放大到 10 倍的输入：全一
zeros, the mean would pass => 全零、平均值也会被判为正确
changes its inputs: 3 of 4 elements of input[0] => 改动了输入：input[0] 的 4 个元素中的 3 个
output[0]: right to 3.1 bits where fp32 has 13.0: 2 of 4 elements differ, the worst by 0.5 (rms 1) =>
    output[0]：正确到 3.1 位，而 fp32 应有 13.0 位：4 个元素中有 2 个不符，最大相差 0.5（均方根 1）
leaves other values in its inputs than the reference does: input[0]: right to 0.0 bits where fp32 has 13.0: 4 of 4
    elements differ, the worst by 1 (rms 1) =>
    在输入里留下的值与参考实现不同：input[0]：正确到 0.0 位，而 fp32 应有 13.0 位：4 个元素中有 4 个不符，最大相差 1（均方根 1）
right for weights as they are constructed, wrong where they have other signs and sizes (a of Model): output: 2 of 4
    elements differ =>
    只对构造时的权重正确，权重（a of Model）换了符号和大小则错误：output：4 个元素中有 2 个不符
inputs times 10, one-dimensional ones too: output: 2 of 4 elements differ =>
    放大到 10 倍的输入（含一维输入）：output：4 个元素中有 2 个不符
wrong for 2 unusual inputs, wrong for 1 unusual weight => 答错 2 种特殊输入、答错 1 种特殊权重
crashes on 1 unusual weight, refuses 1 unusual input => 崩溃于 1 种特殊权重、拒绝 1 种特殊输入
not run: a cuda candidate does not run on this device => cuda 候选实现不能在此设备上运行
not asked for => 没有要求运行
killed by SIGSEGV during its first call => 首次调用时被 SIGSEGV 终止
RuntimeError: an exception's own words => RuntimeError: an exception's own words
"""


@pytest.mark.parametrize("row", re.sub(r"\n +", " ", SENTENCES).strip().splitlines())
def test_a_sentence_is_known_by_its_template_and_a_tools_own_words_stay(row):
    said, _, wanted = row.partition(" => ")
    assert in_chinese(said) == wanted
    assert in_chinese("") == ""


def test_a_space_stands_where_chinese_meets_latin():
    assert spaced("受限于L2 带宽，为其2.1 倍") == "受限于 L2 带宽，为其 2.1 倍"
    assert spaced("占 5%的时间（fp32）") == "占 5% 的时间（fp32）"


# ---- no English sentence in a Chinese report

NAMES = re.compile(
    "original Paddle Perf|current Paddle Perf|faster than the original one|diff with PyTorch|"
    "Nsight Compute|Nsight Systems|Tensor Core|CUDA graph|CUDA event|ATen|Infinity Cache|peak_sustained|gelu|"
    "flash attention|softmax forward"
)
"""Heads of the organisers' table, and what is called so in Chinese too."""
RUN = re.compile(r"[A-Za-z][a-z]+(?:['’-][a-z]+)?(?:,? [A-Za-z]?[a-z]+(?:['’-][a-z]+)?){2,}")
"""Three words in a row: no name is that long but those above."""


def english(text):
    """The English sentences in a text; code, files and names are none."""
    text = re.sub(r"```.*?```|`[^`]*`|<picture>.*?</picture>", "", text, flags=re.S)
    return RUN.findall(NAMES.sub("·", text))


def shown(text, study):
    """What a reader of Chinese sees of a page, what the script draws included.

    Code, full names of kernels and the author's sentence on the task are left out.
    """
    text = text.replace(str(escape(study.manifest.sample.task)) or "\0", "")
    body, _, rest = text.partition('<script type="application/json" id="data">')
    body = re.sub(r"<style>.*?</style>|<title>.*?</title>", "", body, flags=re.S)
    body = re.sub(r'<(span|button)[^>]* lang="en"[^>]*>.*?</\1>', "", body, flags=re.S)
    body = re.sub(
        r"<code[^>]*>.*?</code>|<(p|span) class=\"k\">.*?</\1>|<(b|td)[^>]*>[^<]*\([A-Za-z]+\)</\2>",
        "",
        body,
        flags=re.S,
    )
    seen = html.unescape(re.sub(r"<[^>]+>", "\n", body))
    words = re.search(r'"zh-CN":(\{.*?\})', rest)
    return seen + (words[1].replace('","', '"\n"') if words else "")


def prose(document):
    """The sentences of the facts for an agent, without the commands in them."""
    held = json.loads(document)
    said = [held["next"], held["not_checked"], *held["says"], *held["caveats"]]
    said += [one[key] for one in held["findings"] for key in ("title", "next", "expect")]
    said += [text for one in held["results"] for text in (one.get("kind", ""), one.get("why", ""))]
    return "\n".join(re.sub(r"profkit (?:profile|explain) [^，；）]*", "", text) for text in said)


def written(study, lang="zh"):
    """Every report that has one run: snippet, page, facts for an agent."""
    with speaking(lang):
        facts = prose(agent.document(study))
        return {"pr": pr.snippet(study), "html": shown(page(study), study), "agent": facts}


QUICK = ("ICFSMX", "ICGRMS")
LONG = sorted(path.name for path in H200.iterdir() if path.is_dir() and path.name not in QUICK)


@cache
def run(name):
    return opened(H200 / name)


@pytest.mark.xdist_group("recorded")
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in LONG)])
def test_reports_of_a_run_hold_no_english_sentence(name):
    study = run(name)
    assert study.analysis.caveats or name not in QUICK
    for dialect, text in written(study).items():
        assert english(text) == [], dialect
        assert not EXPONENT.search(text), dialect
        assert CHINESE.search(text), dialect


@pytest.mark.slow
@pytest.mark.xdist_group("recorded")
def test_write_ups_of_a_ladder_hold_no_english_sentence():
    chosen = choose([f"{LADDER / 'batch8'}:{name}" for name in ("reference", "tf32", "bf16", "compiled")])
    ladder = ladder_of(chosen)
    others = [opened(LADDER / name) for name in ("batch32", "batch1")]
    with speaking("zh"):
        made_ = _write_ups(chosen, ladder, others)
    assert {name: english(text) for name, text in made_.items()} == {name: [] for name in made_}


def _write_ups(chosen, ladder, others):
    return {
        "tensorrt": tensorrt.WriteUp(chosen, ladder, figure="ladder.png", others=others).text(),
        "compare": shown(
            page_of(Compared(tuple(one.study for one in chosen), ladder, tuple(chosen)), 0.05), chosen[0].study
        ),
        "paddle": paddle.report(paddle.cases_of(chosen)),
    }


@pytest.mark.slow
def test_reports_of_a_program_hold_no_english_sentence(tmp_path):
    trace = ROOT / "tests/data/kineto/generate_h100.trace.json.gz"
    assert invoke(["import", str(trace), "-o", str(tmp_path / "run")]) == 0
    texts_ = written(open_study(tmp_path / "run"))
    assert [english(texts_[dialect]) for dialect in ("pr", "html")] == [[], []]


def test_the_search_finds_a_sentence():
    assert english("存疑：the clocks of both differ") == ["the clocks of both differ"]
    assert english("由 Nsight Compute 测得，`a b c d`") == []


@pytest.mark.xdist_group("recorded")
def test_no_roof_runs_through_a_name_of_the_ladder_and_its_picture_speaks_the_language(monkeypatch):
    """Seen before: names under the lines of the ceilings and of the ridges; English in the picture of a Chinese write-up."""
    from profkit.report.figures import ladder_scene as scene_of
    from roofline import wording as language
    from roofline.figure import marks
    from roofline.figure.plot import draw

    placed = []

    def watched(board, *rest):
        found = place(board, *rest)
        placed.append((board, found.box))
        return found

    place = marks.place
    monkeypatch.setattr(marks, "place", watched)
    chosen = choose([f"{LADDER / 'batch8'}:{name}" for name in ("reference", "tf32", "bf16", "sdpa", "compiled")])
    draw(scene_of(chosen, ladder_of(chosen)))
    assert len(placed) == 5
    # Over the first, as every verdict is over the reference: over the step before sdpa is 2.13x.
    assert [one.label for one in scene_of(chosen, ladder_of(chosen)).arrows] == ["3.36x", "5.66x", "12.0x", "12.2x"]
    for board, box in placed:
        edge = max(max(a[0], b[0]) for a, b, _ in board.segments)
        level = [(a, b) for a, b, _ in board.segments if abs(a[1] - b[1]) < 1 and max(a[0], b[0]) == edge]
        assert len(level) == 3
        assert not [one for one in level if box.crosses(*one, 2.0)]
    if not language.has_chinese():
        return  # then it is English, which test_roofline_language.py holds
    with speaking("zh"):
        figure = draw(scene_of(chosen, ladder_of(chosen)))
    words = [text.get_text() for text in figure.findobj() if hasattr(text, "get_text")]
    assert "性能 [FLOP/s]" in words
    assert any("的耗时 / 新耗时" in one for one in words)


def test_a_snippet_says_once_that_its_picture_is_in_english():
    said = "制图的机器上没有中文字体"
    assert in_each(lambda: pr.snippet(run("ICJTRP"), foreign=True))[1].count(said) == 1
    assert said not in in_each(lambda: pr.snippet(run("ICJTRP")))[1]


def test_the_report_and_the_findings_of_a_run_are_chinese_where_asked(tmp_path):
    run = shutil.copytree(H200 / "ICJTRP", tmp_path / "run")
    assert invoke(["report", str(run), "--lang", "zh"]) == 0
    headings = [line for line in (run / "report.md").read_text().splitlines() if line.startswith("## ")]
    assert [one for one in headings if one.isascii()] == ["## Roofline"]
    words = {one["word"] for one in json.loads((run / "metrics.json").read_text())["verdicts"]}
    assert words == {"faster", "slower"}


def test_explain_speaks_chinese(capsys):
    assert invoke(["explain", str(H200 / "ICJTRP"), "--lang", "zh"]) == 0
    said = capsys.readouterr().out
    assert "下一步：" in said
    assert "next:" not in said


SKIPPED = "not run: a {} candidate does not run on this device, or was not asked for"
PROFKIT = Path(__file__).parents[2] / "profkit"


def test_a_verdict_says_why_in_the_language_asked_for():
    ignored = "ignores bias of LayerNorm (norm): right only for the initial values"
    wrong = decide(Evidence(impl="x", status="mismatch", reason=ignored))
    assert ignored in wrong.text("en")
    assert "忽略了 bias of LayerNorm (norm)" in wrong.text("zh", in_chinese)
    void = decide(Evidence(impl="x", passing=("zeros",)))
    assert "zeros would pass" in void.text("en")
    assert "全零也会被判为正确" in void.text("zh", in_chinese)
    fragile = decide(Evidence(impl="x", fragile=["every other row zero: output: 3 of 4 elements differ"]))
    assert "不稳健：答错 1 种特殊输入" in fragile.text("zh", in_chinese)
    skipped = decide(Evidence(impl="own", status="skipped", reason=SKIPPED.format("cpp")))
    assert skipped.text("zh", in_chinese) == "未运行：cpp 候选实现不能在此设备上运行，或没有要求运行"


def test_every_sentence_of_the_judge_is_known():
    """Those that stand in the runner's files as they are said, without values in them."""
    said = []
    for file in ("judge/timing/claims.py", "guest/subject.py", "judge/session.py"):
        text = (PROFKIT / file).read_text("utf-8")
        said += re.findall(r'(?:ChangedResultError|Verdict)\(\s*(?:"[\w-]+", )?\s*"([a-z][^"{]{20,})"', text)
        said += re.findall(r'what = "([^"{]+)"', text)
    assert len(said) >= 2
    assert [one for one in said if in_chinese(one) == one] == []
