"""The page in a real Chromium."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graph_quant import dumps
from graph_quant.dumps.analyse.cost import Costs
from graph_quant.dumps.render.to_html import to_html
from graph_quant.ge.schema import new_graph

DATA = Path(__file__).parent / "data"
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --window-size=1500,950"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(
            "no Chromium with its driver on this machine: the page is not tested (Debian: chromium, chromium-driver)"
        )
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: the page is not tested")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for option in OPTIONS.split():
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield opened
    opened.quit()


def show(browser: Any, path: Path, page: str) -> None:
    path.write_text(page, encoding="utf-8")
    browser.get(path.as_uri())
    assert browser.get_log("browser") == [], "no console error, and nothing blocked or fetched"


def click(browser: Any, name: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = browser.find_element("id", "graph")
    place = browser.execute_script("return graphQuant.where(arguments[0])", name)
    size = canvas.size
    ActionChains(browser).move_to_element_with_offset(
        canvas, place["x"] - size["width"] / 2, place["y"] - size["height"] / 2
    ).click().perform()


def card(browser: Any) -> str:
    text: str = browser.find_element("id", "card").text
    return text


def test_a_graph_can_be_looked_at(browser, tmp_path):
    dump = dumps.load(DATA / "upstream_group_quant_int4.txt", DATA / "upstream_group_quant_int4_py.txt")
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    assert browser.execute_script("return graphQuant.nodes") == len(dump.nodes)
    assert browser.execute_script("return graphQuant.drawn()") == len(dump.nodes) - 8, "nine nodes are folded into one"
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
    browser.find_element("id", "fold").click()
    assert browser.execute_script("return graphQuant.drawn()") == len(dump.nodes)


def test_search_finds_a_node_and_shows_its_card(browser, tmp_path):
    dump = dumps.load(DATA / "upstream_block.txt")
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    search = browser.find_element("id", "search")
    search.send_keys("softmax")
    assert [item.text.split("\n")[0] for item in browser.find_elements("css selector", "#hits li:not(.more)")] == [
        "SoftmaxV2"
    ]
    search.send_keys("\n")
    assert browser.find_element("id", "card").get_attribute("data-node") == "SoftmaxV2"
    assert "float32[s77, 4, 8, 8]" in card(browser)
    search.clear()
    search.send_keys("no such thing")
    assert browser.find_element("id", "hits").text == "nothing found"


def test_dragging_moves_and_the_wheel_zooms(browser, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    dump = dumps.load(DATA / "upstream_group_quant_int4.txt")
    show(browser, tmp_path / "page.html", to_html(dump, Costs(dump)))
    canvas = browser.find_element("id", "graph")
    places = [browser.execute_script("return [graphQuant.where('arg2_1').x, graphQuant.where('arg5_1').x]")]
    ActionChains(browser).move_to_element_with_offset(canvas, -300, 200).click_and_hold().move_by_offset(
        90, 0
    ).release().perform()
    places.append(browser.execute_script("return [graphQuant.where('arg2_1').x, graphQuant.where('arg5_1').x]"))
    assert places[1][0] - places[0][0] == pytest.approx(90)
    ActionChains(browser).scroll_from_origin(_origin(canvas), 0, -300).perform()
    wide = browser.execute_script("return graphQuant.where('arg5_1').x - graphQuant.where('arg2_1').x")
    assert wide > 1.2 * (places[1][1] - places[1][0])


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
    assert browser.find_element("id", "card").get_attribute("data-node") == "19/SoftmaxV2"
    click(browser, "19/RealDiv")
    assert browser.find_element("id", "card").get_attribute("data-node") == "19/RealDiv"
    browser.find_element("id", "fit").click()
    time.sleep(0.1)
    assert browser.get_log("browser") == []


def test_a_difference_can_be_looked_at(browser, tmp_path, command):
    text = (DATA / "upstream_group_quant_int4.txt").read_text()
    (tmp_path / "int8.txt").write_text(text.replace("i: 29", "i: 2"))
    _, page, _ = command("diff", tmp_path / "int8.txt", DATA / "upstream_group_quant_int4.txt", "--format", "html")
    show(browser, tmp_path / "page.html", page)
    click(browser, "GroupQuant")
    assert "attribute dst_type: int8 → int4" in card(browser)
