"""The page in a real Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from graph_quant import dumps
from graph_quant.dumps import Costs, to_html
from graph_quant.ge.protobuf import new_graph

from tests.dumps.test_outline import decoder
from tests.support.browser import chromium
from tests.support.layered_dump import layered

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def downloads(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(downloads) -> Iterator[Any]:
    opened = chromium(downloads)
    if opened is None:
        pytest.skip(
            "no Chromium with its driver on this machine: the page is not tested (Debian: chromium, chromium-driver)"
        )
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """The page of 28 layers, with times of two of them and the bounds of a chip."""
    from graph_quant.cli import main

    folder = tmp_path_factory.mktemp("model")
    rows = ["Name,Type,Duration(us)", "linear3,QuantBatchMatmulV3,40", "quant3,DynamicQuant,10", "add4,Add,2"]
    (folder / "kernel_details.csv").write_text("\n".join(rows) + "\n")
    (folder / "model.txt").write_text(layered(28))
    times = ["--profile", folder / "kernel_details.csv", "--chip", "Ascend910B3"]
    for name, more in (("model", []), ("timed", times)):
        arguments = ["inspect", folder / "model.txt", "--format", "html", "-o", folder / f"{name}.html", *more]
        assert main([str(argument) for argument in arguments]) == 0
    return folder


@pytest.fixture(scope="module")
def block(tmp_path_factory) -> Path:
    """The page of a block of a transformer with symbolic sizes."""
    dump = dumps.load(DATA / "upstream_block.txt")
    path: Path = tmp_path_factory.mktemp("block") / "block.html"
    path.write_text(to_html(dump, Costs(dump)), encoding="utf-8")
    return path


def show(browser: Any, path: Path, page: str = "", fragment: str = "") -> None:
    if page:
        path.write_text(page, encoding="utf-8")
    browser.get("about:blank")
    browser.get(path.as_uri() + fragment)
    assert browser.get_log("browser") == [], "no console error, and nothing blocked or fetched"


def click(browser: Any, name: str, pane: int = 0) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = browser.find_elements("css selector", "canvas.graph")[pane]
    position = browser.execute_script("return graphQuant.where(arguments[0], arguments[1])", name, pane)
    size = canvas.size
    ActionChains(browser).move_to_element_with_offset(
        canvas, position["x"] - size["width"] / 2, position["y"] - size["height"] / 2
    ).click().perform()


def card(browser: Any) -> str:
    text: str = browser.find_element("id", "card").text
    return text


def chosen(browser: Any) -> str | None:
    name: str | None = browser.find_element("id", "card").get_attribute("data-node")
    return name


def drawn(browser: Any, pane: int = 0) -> list[str]:
    titles: list[str] = browser.execute_script("return graphQuant.titles(arguments[0])", pane)
    return titles


def press(browser: Any, identifier: str) -> None:
    browser.find_element("id", identifier).click()


def test_the_page_opens_on_the_outline_and_groups_open_in_place(browser, model):
    show(browser, model / "model.html")
    assert drawn(browser) == ["Data", "NetOutput", "⊞ block of 4 nodes ×28"]
    assert "168 nodes, 56 quantised" in card(browser)
    click(browser, "block of 4 nodes")
    assert chosen(browser) == "block of 4 nodes"
    corner = "const box = graphQuant.panes[0].scene.byId.get(-2), {view} = graphQuant.panes[0]; "
    corner += "return [view.x + view.zoom * box.left, view.y + view.zoom * box.top]"
    before = browser.execute_script(corner)
    browser.find_element("css selector", "#card button").click()
    assert len(drawn(browser)) == 2 + 28
    assert browser.execute_script(corner) == pytest.approx(before), "it opens where it stood"
    click(browser, "block 3")
    browser.find_element("css selector", "#card button").click()
    assert drawn(browser).count("QuantBatchMatmulV3") == 1
    assert len(drawn(browser)) == 2 + 27 + 4
    lines = browser.execute_script("return graphQuant.panes[0].scene.byId.get(22).lines.map(line => line[0])")
    assert lines == [
        "QuantBatchMatmulV3",
        "linear3",
        "float16[4, 32]",
        "x2 = w3 int8[32, 32]",
        "scale = s3 float32[32]",
    ]
    browser.execute_script("graphQuant.panes[0].centre(-2)")
    click(browser, "block of 4 nodes")
    browser.find_element("css selector", "#card button").click()
    assert drawn(browser) == ["Data", "NetOutput", "⊞ block of 4 nodes ×28"]
    press(browser, "fold")
    assert len(drawn(browser)) == 2 + 4 * 28


def test_search_lights_up_all_hits_and_steps_through_them(browser, model):
    from selenium.webdriver.common.keys import Keys

    show(browser, model / "model.html")
    search, count = browser.find_element("id", "search"), browser.find_element("id", "count")
    search.send_keys("linear")
    assert count.text == "28 found"
    names = "return [...graphQuant.panes[0].countMatches()]"
    assert browser.execute_script(names) == [[-2, 28]], "a closed group lights up for all it holds"
    search.send_keys(Keys.ENTER)
    assert (count.text, chosen(browser)) == ("1 of 28", "linear0")
    search.send_keys(Keys.ENTER)
    assert (count.text, chosen(browser)) == ("2 of 28", "linear1")
    assert [hits for _, hits in browser.execute_script(names)] == [1] * 28
    search.send_keys(Keys.SHIFT, Keys.ENTER)
    assert chosen(browser) == "linear0"
    press(browser, "previous")
    assert (count.text, chosen(browser)) == ("28 of 28", "linear27")
    search.send_keys(Keys.ESCAPE)
    assert browser.execute_script("return graphQuant.panes[0].countMatches().size") == 0


def test_keys_go_from_node_to_node(browser, model):
    from selenium.webdriver.common.keys import Keys

    show(browser, model / "model.html")
    canvas = browser.find_element("css selector", "canvas.graph")
    canvas.send_keys(Keys.ARROW_DOWN)
    assert chosen(browser) == "x"
    canvas.send_keys(Keys.ARROW_DOWN)
    assert chosen(browser) == "block of 4 nodes"
    canvas.send_keys(Keys.ENTER)
    assert len(drawn(browser)) == 2 + 28
    canvas.send_keys(Keys.ENTER)
    canvas.send_keys(Keys.ARROW_DOWN)
    assert chosen(browser) == "NetOutput"
    canvas.send_keys(Keys.ARROW_UP)
    assert chosen(browser) == "block of 4 nodes"


def test_a_node_has_an_address(browser, model):
    show(browser, model / "model.html", fragment="#node=linear3")
    assert chosen(browser) == "linear3"
    click(browser, "quant3")
    assert browser.current_url.endswith("#node=quant3")
    browser.execute_script("location.hash = 'node=w7'")
    time.sleep(0.1)
    assert chosen(browser) == "w7", "a weight, which stands in its reader"
    assert "QuantBatchMatmulV3" in drawn(browser)


def test_the_drawing_is_saved_as_svg_and_png(browser, model, downloads):
    show(browser, model / "model.html", fragment="#node=linear3")
    press(browser, "svg")
    press(browser, "png")
    files = [downloads / "model.svg", downloads / "model.png"]
    for _ in range(100):
        if all(file.exists() and file.stat().st_size for file in files):
            break
        time.sleep(0.05)
    root = ElementTree.fromstring(files[0].read_text())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"linear3", "x2 = w3 int8[32, 32]", "⊞ block 4"} <= set(texts)
    assert files[1].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert browser.get_log("browser") == []


def test_light_and_dark(browser, model):
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    show(browser, model / "model.html")
    assert browser.execute_script(ground) == "rgb(20, 24, 31)"
    press(browser, "theme")
    assert browser.execute_script(ground) == "rgb(246, 247, 249)"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_times_are_colours(browser, model):
    from selenium.webdriver.support.ui import Select

    show(browser, model / "timed.html", fragment="#node=linear3")
    colour = Select(browser.find_element("id", "colour"))
    shown = [option.get_attribute("value") for option in colour.options]
    assert shown == ["kind", "measured", "least", "by", "ratio"]
    assert colour.first_selected_option.text == "colour: measured time"
    assert browser.find_element("id", "legend").text == "0\n40 µs"
    for text in ("40 µs, 76.9 %", "at least", "by memory", "measured: 52.0 us", "published by Ascend/msmodeling"):
        if text.startswith(("measured", "published")):
            click_nowhere(browser)
        assert text in card(browser)
    colour.select_by_value("by")
    assert browser.find_element("id", "legend").text.split("\n") == ["memory bound", "cube bound", "vector bound"]


def click_nowhere(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.find_element("css selector", "canvas.graph").send_keys(Keys.ESCAPE)


def test_shapes_are_hidden_until_asked_for(browser, block):
    show(browser, block)
    assert {"Pack", "Shape", "Const"}.isdisjoint(drawn(browser))
    assert not any(title.startswith("⊞ shape") for title in drawn(browser))
    press(browser, "shapes")
    assert any(title.startswith("⊞ shape") for title in drawn(browser))


def test_the_page_opens_on_the_largest_group(browser, tmp_path):
    dump = decoder(9)
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump), "Nine layers"))
    assert drawn(browser) == ["Data", "NetOutput", "⊞ 8 Relu", *(f"⊞ {n}" for n in range(9))]
    assert browser.title == "Nine layers"
    bounds = "const {scene, view, canvas} = graphQuant.panes[0]; return scene.boxes.every(box => "
    bounds += "view.x + view.zoom * box.left > 0 && view.y + view.zoom * (box.top + box.height) < canvas.clientHeight)"
    assert browser.execute_script(bounds), "all of it is on the screen"


def test_groups_that_wait_for_each_other_are_drawn(browser, tmp_path):
    graph = new_graph("twice")
    chain = [
        ("x", "Data", ""),
        ("a", "Relu", "one"),
        ("b", "Relu", "two"),
        ("c", "Relu", "one"),
        ("y", "NetOutput", ""),
    ]
    for index, (name, kind, module) in enumerate(chain):
        op = graph.op.add(name=name, type=kind)
        op.output_desc.add(name="y")
        if index:
            op.input.append(f"{chain[index - 1][0]}:0")
        if module:
            op.attr["_module_path"].s = module.encode()
    dump = dumps.from_graph(graph)
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    tops = "return Object.fromEntries(graphQuant.panes[0].scene.boxes.map(box => [box.lines[0][0], box.top]))"
    positions = browser.execute_script(tops)
    assert positions["Data"] < positions["⊞ one"] < positions["⊞ two"] == positions["NetOutput"]


def test_a_graph_can_be_looked_at(browser, tmp_path):
    dump = dumps.load(DATA / "upstream_group_quant_int4.txt", DATA / "upstream_group_quant_int4_py.txt")
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    assert browser.execute_script("return graphQuant.nodes") == len(dump.nodes)
    titles = drawn(browser)
    assert "⊞ pack int4" in titles
    assert "Bitcast" not in titles
    assert "14 nodes of 9 types" in card(browser)
    click(browser, "GroupQuant")
    for text in (
        "GroupQuant",
        "dst_type",
        "int4[s77, s27]",
        "-8 … 7",
        "8 to an int32",
        "e7",
        "model.py",
        "desc says float32",
    ):
        assert text in card(browser)
    press(browser, "fold")
    assert "Bitcast" in drawn(browser)


def test_search_finds_a_node_and_shows_its_card(browser, block):
    show(browser, block)
    search = browser.find_element("id", "search")
    search.send_keys("softmax")
    assert [item.text.split("\n")[0] for item in browser.find_elements("css selector", "#hits li:not(.more)")] == [
        "SoftmaxV2"
    ]
    search.send_keys("\n")
    assert chosen(browser) == "SoftmaxV2"
    assert "float32[s77, 4, 8, 8]" in card(browser)
    search.clear()
    search.send_keys("no such thing")
    assert browser.find_element("id", "hits").text == "nothing found"


def test_dragging_moves_and_the_wheel_zooms(browser, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    dump = dumps.load(DATA / "upstream_group_quant_int4.txt")
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    canvas = browser.find_element("css selector", "canvas.graph")
    positions = [
        browser.execute_script(
            "return [graphQuant.where('arg2_1').x, graphQuant.where('arg2_1').y, graphQuant.where('GroupQuant').y]"
        )
    ]
    ActionChains(browser).move_to_element_with_offset(canvas, -300, 200).click_and_hold().move_by_offset(
        90, 0
    ).release().perform()
    positions.append(
        browser.execute_script(
            "return [graphQuant.where('arg2_1').x, graphQuant.where('arg2_1').y, graphQuant.where('GroupQuant').y]"
        )
    )
    assert positions[1][0] - positions[0][0] == pytest.approx(90)
    ActionChains(browser).scroll_from_origin(_origin(canvas), 0, -300).perform()
    high = browser.execute_script("return graphQuant.where('GroupQuant').y - graphQuant.where('arg2_1').y")
    assert high > 1.2 * (positions[1][2] - positions[1][1])


def _origin(canvas: Any) -> Any:
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(canvas)


def test_the_bits_of_a_quantisation_parameter_are_decoded(browser, live, tmp_path):
    dump = dumps.load(live["quant_matmul"].txt)
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    click(browser, "TransQuantParamV2")
    # The first value that the document of npu_trans_quant_param prints.
    assert "scale 1.045898, offset 1, bit 46 is 1" in card(browser)


def test_hostile_names_stay_text(browser, tmp_path):
    text = (DATA / "upstream_group_quant_int4.txt").read_text()
    evil = "</script><img src=x onerror=alert(1)>"
    (tmp_path / "dump.txt").write_text(
        text.replace('name: "GroupQuant"', f'name: "{evil}"').replace('"GroupQuant:0"', f'"{evil}:0"')
    )
    dump = dumps.load(tmp_path / "dump.txt")
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump), evil))
    click(browser, evil)
    assert browser.find_element("css selector", "#card h2").text == evil
    assert browser.find_elements("css selector", "img") == []


def test_three_thousand_nodes_stay_usable(browser, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    graph = new_graph()
    block = dumps.load(DATA / "upstream_block.txt")
    for layer in range(3000 // len(block.nodes) + 1):
        for node in block.order:
            if node.type == "NetOutput" or (layer and node.name == "arg2_1"):
                continue
            op = graph.op.add()
            op.CopyFrom(node.proto)
            op.name = f"{layer}/{node.name}"
            last = f"{layer - 1}/Add_3:0"
            op.input[:] = [
                last if layer and name == "arg2_1:0" else name and f"{layer}/{name}" for name in node.proto.input
            ]
    dump = dumps.from_graph(graph)
    assert len(dump.nodes) >= 3000
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    assert browser.execute_script("return graphQuant.nodes") == len(dump.nodes)
    search = browser.find_element("id", "search")
    search.send_keys("19/SoftmaxV2\n")
    assert chosen(browser) == "19/SoftmaxV2"
    click(browser, "19/RealDiv")
    assert chosen(browser) == "19/RealDiv"
    press(browser, "fold")
    assert browser.execute_script("return graphQuant.drawn()") > 900
    canvas = browser.find_element("css selector", "canvas.graph")
    pixels = """
    const [pane] = graphQuant.panes, {width, height} = pane.canvas;
    pane.draw();
    const sheet = Object.assign(document.createElement("canvas"), {width, height});
    const copy = sheet.getContext("2d", {willReadFrequently: true});
    copy.drawImage(pane.canvas, 0, 0);
    return copy.getImageData(0, 0, width, height).data.reduce((sum, part) => sum + part, 0);
    """
    held = "return graphQuant.panes[0].sheet !== null"
    drag = ActionChains(browser).move_to_element_with_offset(canvas, -300, 200).click_and_hold().move_by_offset(90, 40)
    drag.perform()
    assert browser.execute_script(held), "a sheet of it is moved"
    moved = browser.execute_script(pixels)
    ActionChains(browser).release().perform()
    assert not browser.execute_script(held)
    assert moved == pytest.approx(browser.execute_script(pixels), rel=1e-3), "which looks as if it were drawn"
    press(browser, "fit")
    time.sleep(0.1)
    assert browser.get_log("browser") == []


def test_a_difference_is_shown_side_by_side(browser, tmp_path, command):
    changed = layered(28).replace("linear5_0, scale=1.0", "linear5_0, scale=2.0")
    changed = changed.replace(
        'ge.Swish(linear9_0, scale=1.0, node_name="act9")', 'ge.Relu(linear9_0, node_name="act9")'
    )
    (tmp_path / "old.txt").write_text(layered(28))
    (tmp_path / "new.txt").write_text(changed)
    code, page, _ = command("diff", tmp_path / "old.txt", tmp_path / "new.txt", "--format", "html")
    assert code == 1
    show(browser, tmp_path / "page.html", page)
    assert [element.text for element in browser.find_elements("css selector", ".pane h2")] == ["old", "new"]
    assert browser.find_element("id", "legend").text.split("\n") == [
        "only before",
        "only after",
        "changed",
        "unchanged",
    ]
    assert "⊞ block of 4 nodes ×28" in drawn(browser, 0)
    assert "1 removed, 1 added, 2 changed" in card(browser)
    changes = browser.find_elements("css selector", "#changes a")
    assert [element.text.partition(" ")[0] for element in changes] == ["act9:", "act9:", "act5:", "add9:"]
    next(element for element in changes if element.text.startswith("act5")).click()
    assert chosen(browser) == "act5"
    assert "attribute scale: 1 → 2" in card(browser)
    marked = "return graphQuant.panes.map(pane => pane.scene.byId.get(pane.chosenId()).mark)"
    assert browser.execute_script(marked) == ["changed", "changed"], "the node is shown on both sides"
    show(browser, tmp_path / "page.html", fragment="#before=act9")
    assert "only before" in card(browser)
    assert (
        browser.execute_script("return graphQuant.panes[0].scene.byId.get(graphQuant.panes[0].chosenId()).mark")
        == "removed"
    )
