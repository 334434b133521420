"""What hands do to a timeline in a real Chromium: keys, wheel, drags, fingers, links; on a page of its own each."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chromium import VIEW, Hands, Pages, box_of
from recordings import TRACES, analysis_of
from trace_builder import SIDE, TraceBuilder

from pinprof.analysis import analyse
from pinprof.report.html import Markup
from pinprof.report.page import page as page_around
from pinprof.report.timeline import fragment
from pinprof.report.trace.page import timeline_page, to_html
from pinprof.trace import read_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Opened = Callable[..., Hands]


def written(folder: Path) -> Path:
    """Ten steps of 1 ms; in each a copy on a side stream during kernels, a wait for it, and nested ops."""
    builder = TraceBuilder()
    for zero in builder.steps(10):
        builder.op("aten::linear", zero + 50, 300)
        builder.op("aten::addmm", zero + 60, 200)
        for number in range(3):
            builder.kernel(zero + 200 + 100 * number, 80, launch=zero + 70 + 20 * number, name=f"gemm{number}")
        builder.copy("DtoH (Device -> Pinned)", zero + 415, 60, launch=zero + 395, call=10, stream=SIDE, size=4096)
        builder.call("cudaDeviceSynchronize", zero + 420, 200)
    return builder.write(folder / "steps.json")


@pytest.fixture
def opened(pages: Pages, tmp_path: Path) -> Iterator[Opened]:
    """Return what opens a timeline."""

    def open_page(
        made: Callable[..., Markup] = timeline_page,
        address: str = "",
        trace: Callable[[Path], Path] = written,
        **options: Any,
    ) -> Hands:
        file = tmp_path / "timeline.html"
        if not address:
            file.write_text(made(analyse(read_trace(trace(tmp_path)))), encoding="utf-8")
        return Hands(open_pages.enter_context(pages.opened(file, address=address, **options)))

    with ExitStack() as open_pages:
        yield open_page


def test_keys_work_on_a_page_that_nobody_has_touched(opened: Opened) -> None:
    hands = opened()
    assert hands.page.evaluate("document.activeElement === document.body")
    whole = hands.press("0")
    for nearer, further in (("+", "-"), ("w", "s"), ("=", "_")):
        closer = hands.press(nearer)
        assert whole[0] < closer[0] < closer[1] < whole[1]
        assert hands.press(further) == pytest.approx(whole)
    closer = hands.press("W")
    for on, back in (("d", "a"), ("ArrowRight", "ArrowLeft")):
        assert hands.press(on)[0] > closer[0]
        assert hands.press(back) == pytest.approx(closer)
    assert hands.press("Home") == pytest.approx(whole)
    hands.press("/")
    hands.page.keyboard.type("wasd0+")  # text, where somebody writes
    assert hands.page.locator(".find").input_value() == "wasd0+"
    assert hands.view() == pytest.approx(whole)
    hands.press("Escape")  # of the search, which gives the keys back
    hands.press("?")
    assert hands.page.locator("dialog.help[open]").is_visible()
    hands.press("+")
    assert hands.view() == pytest.approx(whole)
    hands.press("Escape")
    assert not hands.page.locator("dialog.help").is_visible()


def test_a_held_key_moves_on_until_it_is_let_go(opened: Opened) -> None:
    hands = opened()
    hands.press("0")
    hands.page.keyboard.down("w")
    hands.page.wait_for_function(f"() => {{ const [start, end] = {VIEW}; return end - start < 10 / 1.6 ** 3 }}")
    hands.page.keyboard.up("w")
    span = hands.span()
    hands.page.wait_for_timeout(200)
    assert hands.span() == span
    still = opened(reduced_motion="reduce")
    whole = still.press("0")
    assert still.press("+")[1] - still.view()[0] == pytest.approx((whole[1] - whole[0]) / 1.6)


def test_a_wheel_zooms_at_the_pointer_with_ctrl_or_after_a_click(opened: Opened) -> None:
    hands = opened(lambda analysis: Markup("<br>" * 60).join([timeline_page(analysis), ""]))
    hands.press("0")
    x, y = hands.place("ops", 3)
    hands.page.mouse.move(x, y)
    hands.page.keyboard.down("Control")
    hands.page.mouse.wheel(0, -300)
    hands.page.keyboard.up("Control")
    span = hands.span()
    assert span < 0.7 * 10.2
    assert hands.place("ops", 3)[0] == pytest.approx(x, abs=1)
    hands.page.keyboard.down("Shift")
    hands.page.mouse.wheel(0, 100)
    hands.page.keyboard.up("Shift")
    assert hands.place("ops", 3)[0] < x - 50
    assert hands.span() == pytest.approx(span)
    hands.page.mouse.wheel(100, 0)
    assert hands.span() == pytest.approx(span)
    hands.page.mouse.wheel(0, 100)  # nobody has clicked: the page scrolls
    hands.page.wait_for_function("() => scrollY > 0")
    assert hands.span() == pytest.approx(span)
    hands.page.evaluate("scrollTo(0, 0)")
    hands.page.wait_for_timeout(300)
    hands.page.mouse.click(*hands.place("ops", hands.view()[0] + 0.3))
    hands.page.mouse.wheel(0, 100)
    assert hands.span() > 1.1 * span
    assert hands.page.evaluate("scrollY") == 0


def test_dragging_moves_or_selects_as_the_tool_says(opened: Opened) -> None:
    hands = opened()
    hands.press("0")
    hands.press("+")
    start, end = hands.view()
    moved = hands.drag(hands.place("ops", start + 2), hands.place("ops", start + 3))
    assert moved == pytest.approx((start - 1, end - 1), abs=0.02)
    hands.click("select")
    assert hands.button("select").get_attribute("aria-pressed") == "true"
    assert hands.drag(hands.place("ops", 2), hands.place("ops", 3)) == pytest.approx(moved)
    assert hands.page.locator(".sums").is_visible()
    hands.click("move")
    hands.press("Escape")
    assert not hands.page.locator(".sums").is_visible()


def rows(hands: Hands) -> list[list[str]]:
    hands.view()
    return [row.locator("th, td").all_inner_texts() for row in hands.page.locator(".sums tbody tr").all()]


def test_a_selection_is_summed_by_name_kind_and_lane(opened: Opened) -> None:
    hands = opened()
    hands.press("0")
    hands.page.keyboard.down("Shift")
    hands.drag(hands.place("overlap", 1.1), (hands.place("", 2.1)[0], hands.place(f"stream {SIDE}", 2)[1]))
    hands.page.keyboard.up("Shift")
    heading, gpu = hands.page.locator(".sums").inner_text().splitlines()[:2]
    assert heading == "1.00 ms selected, 4 events in 3 lanes"
    assert re.fullmatch(r"GPU 0: idle 7\d\d µs \(76 %\), kernels alone 180 µs \(18 %\), .* copies 60.0 µs \(6 %\)", gpu)
    assert rows(hands)[-1] == ["Memcpy DtoH (Device -> Pinned)", "1", "60.0 µs", "60.0 µs", "6 %"]
    names = [row[0] for row in rows(hands)]
    hands.click("name")
    assert [row[0] for row in rows(hands)] == sorted(names, key=str.casefold)
    hands.click("by kind")
    kinds = {row[0]: row[1:] for row in rows(hands)}
    assert kinds["kernel"] == ["3", "240 µs", "80.0 µs", "24 %"]
    hands.click("by lane")
    assert {row[0] for row in rows(hands)} == {"stream 7 (GPU 0)", f"stream {SIDE} (GPU 0)"}
    hands.click("by name")
    hands.click("gemm1")
    assert hands.page.locator(".found").inner_text() == "1 found"
    hands.click("zoom to it")
    assert hands.span() == pytest.approx(1, rel=0.01)
    hands.click("end selection")
    assert not hands.page.locator(".sums").is_visible()


def test_a_click_above_the_lanes_of_gpus_moves_nothing_below_its_details(opened: Opened) -> None:
    hands = opened(lambda analysis: to_html([analysis]), height=700)
    hands.page.evaluate("document.querySelector('.timeline').scrollIntoView(); scrollBy(0, -300)")
    before, lane = hands.page.evaluate("scrollY"), box_of(hands.page.locator(".timeline .names span").first)
    hands.page.mouse.click(hands.area()["x"] + 200, lane["y"] + 10)
    assert hands.details().startswith("ProfilerStep#")
    assert hands.page.evaluate("scrollY") == before


def test_a_click_tells_of_the_event_and_leads_to_its_relatives(opened: Opened) -> None:
    hands = opened()
    hands.press("0")
    hands.page.mouse.click(*hands.place("stream 7", 1.24))
    details = hands.details()
    assert details.startswith("gemm0")
    assert hands.page.locator(".labels .mark").all_inner_texts() == ["chosen", "its launch"]
    assert "launched by: cudaLaunchKernel" in details
    assert "asked for by: aten::addmm" in details
    assert "10 of this name, 800 µs in all" in details
    hands.page.locator(".chosen button", has_text="aten::addmm").first.click()
    details = hands.details()
    assert details.startswith("aten::addmm")
    assert "is in: aten::linear" in details
    assert re.search(r"launches 3, 240 µs: .*gemm0", details)
    assert re.search(r"holds 3: cudaLaunchKernel", details)
    hands.page.locator(".chosen li", has_text="launches").get_by_role("button", name="show all").click()
    hands.view()
    assert hands.page.locator(".found").inner_text() == "1 of 3"
    marks, drawer = hands.page.locator(".labels .mark").all(), hands.page.locator(".drawer").bounding_box()
    assert marks
    assert drawer
    assert all(box_of(mark)["y"] + box_of(mark)["height"] < drawer["y"] for mark in marks)  # details hide none
    chosen = hands.details().splitlines()[0]
    hands.press(".")
    assert hands.details().splitlines()[0] != chosen
    hands.press(",")
    assert hands.details().splitlines()[0] == chosen
    hands.press("[")
    assert hands.details().startswith("cudaLaunchKernel")
    hands.press("]")
    assert hands.details().splitlines()[0] == chosen
    hands.press("]")  # which launches nothing
    assert hands.details().splitlines()[0] == chosen
    hands.press("Shift+ArrowDown")
    assert hands.details().startswith("Memcpy DtoH")
    hands.press("Shift+ArrowUp")
    assert hands.details().startswith("gemm2")
    hands.press("f")
    assert hands.span() == pytest.approx(0.08 * 1.7, rel=0.02)
    hands.click("close")
    assert not hands.page.locator(".chosen").is_visible()


def test_a_wait_leads_to_what_it_waited_for(opened: Opened) -> None:
    hands = opened()
    hands.press("0")
    hands.page.mouse.click(*hands.place("stalls", 1.5))
    details = hands.details()
    assert details.startswith("torch.cuda.synchronize(): cudaDeviceSynchronize")
    assert "waits for: gemm2" in details
    assert "awaited work: gemm2" in details
    assert hands.page.locator(".labels .mark").all_inner_texts() == ["chosen", "awaited work"]
    hands.press("Escape")
    assert not hands.page.locator(".chosen").is_visible()
    hands.page.mouse.click(*hands.place("stalls", 1.5))
    hands.press("]")
    assert hands.details().startswith("gemm2")


def test_the_overview_shows_the_window_and_is_dragged_resized_and_clicked(opened: Opened) -> None:
    hands = opened()
    whole = hands.press("0")
    strip = hands.page.locator(".overview").bounding_box()
    assert strip
    y, scale = strip["y"] + strip["height"] / 2, strip["width"] / (whole[1] - whole[0])

    def at(time: float) -> tuple[float, float]:
        return strip["x"] + (time - whole[0]) * scale, y

    hands.click("zoom in")
    hands.click("zoom in")
    start, end = hands.view()
    middle = (start + end) / 2
    assert hands.drag(at(middle), at(middle + 1)) == pytest.approx((start + 1, end + 1), abs=0.02)
    assert hands.drag(at(end + 1), at(end + 2)) == pytest.approx((start + 1, end + 2), abs=0.02)
    assert hands.drag(at(start + 1), at(start)) == pytest.approx((start, end + 2), abs=0.02)
    hands.page.mouse.click(*at(whole[0] + 0.2))
    assert hands.view()[0] == pytest.approx(whole[0])
    shown = hands.view()[1]
    assert hands.drag(at(shown + 1), at(shown + 2)) == pytest.approx((shown + 1, shown + 2), abs=0.03)


def test_m_leaves_flags_that_stay_and_takes_them_away(opened: Opened) -> None:
    hands = opened()
    flags = hands.page.locator(".plot .flag")
    start, end = hands.press("0")
    area = hands.area()
    for share in (0.25, 0.5):
        hands.page.mouse.move(area["x"] + share * area["width"], area["y"] + 5)
        hands.press("m")
    first, second = flags.all_inner_texts()
    assert first.startswith("⚑ ")
    match = re.search(r"\(\+([\d.]+) ms\)$", second)
    assert match
    assert float(match[1]) == pytest.approx((end - start) / 4, abs=0.1)
    hands.press("Escape")
    hands.press("+")
    assert flags.all_inner_texts()[-1].endswith(match[0])  # they stay when the view changes
    hands.press("0")
    hands.page.mouse.move(area["x"] + 0.25 * area["width"] + 2, area["y"] + 5)
    hands.press("m")
    assert len(flags.all_inner_texts()) == 1


def test_keys_move_the_window_in_the_strip_and_its_edge(opened: Opened) -> None:
    hands = opened()
    whole = hands.press("0")
    hands.press("+")
    hands.press("+")
    hands.page.locator(".steer button:visible").last.focus()
    hands.page.keyboard.press("Tab")
    hands.page.keyboard.press("Tab")  # past the plot
    strip = hands.page.get_by_role("slider", name="Window in the whole recording")
    assert strip.evaluate("strip => strip === document.activeElement")
    start, end = hands.view()
    span = end - start
    assert hands.press("Home") == pytest.approx((whole[0], whole[0] + span))
    value = strip.get_attribute("aria-valuetext")
    assert value
    assert re.fullmatch(r"0 ns to [\d.]+ ms of 10.[\d]+ ms", value)
    assert strip.get_attribute("aria-valuenow") == "0"
    assert hands.press("PageDown") == pytest.approx((whole[0] + span, whole[0] + 2 * span))
    assert hands.press("PageUp") == pytest.approx((whole[0], whole[0] + span))
    assert hands.press("End") == pytest.approx((whole[1] - span, whole[1]))
    hands.press("Home")
    assert hands.press("Shift+ArrowRight") == pytest.approx((whole[0], whole[0] + 1.1 * span))
    assert hands.press("Shift+ArrowLeft")[1] == pytest.approx(whole[0] + 0.99 * span)
    assert hands.press("d")[0] > whole[0]  # the keys of the lanes work here, too


def test_one_goes_back_and_forward_through_what_was_seen(opened: Opened) -> None:
    hands = opened()
    first = hands.view()
    assert hands.button("back").is_disabled()
    whole = hands.press("0")
    closer = hands.press("+")
    hands.click("back")
    assert hands.view() == pytest.approx(whole)
    assert hands.press("Alt+ArrowLeft") == pytest.approx(first)
    assert hands.press("Alt+ArrowRight") == pytest.approx(whole)
    hands.click("forward")
    assert hands.view() == pytest.approx(closer)
    assert hands.button("forward").is_disabled()


def test_a_copied_link_opens_the_same_window_event_and_selection(opened: Opened) -> None:
    hands = opened()
    assert hands.page.evaluate("location.hash") == ""
    hands.press("0")
    hands.press("+")
    hands.page.keyboard.down("Shift")
    hands.drag(hands.place("ops", 4.1), hands.place("ops", 5.1))
    hands.page.keyboard.up("Shift")
    hands.page.mouse.click(*hands.place("stream 7", 4.24))
    shown, sums = hands.view(), rows(hands)
    hands.click("copy link")
    address = hands.page.evaluate("location.hash")
    assert address.startswith("#t=1,")
    again = opened(address=address)
    assert again.view() == pytest.approx(shown, abs=1e-6)
    assert again.details() == hands.details()
    assert rows(again) == sums


def test_a_link_that_does_not_fit_does_no_harm(opened: Opened) -> None:
    hands = opened()
    shown = hands.view()
    for address in ("#t=1,5,2", "#t=9,0,5", "#t=1,x,y", "#e=1,1", "#timeline"):
        hands.page.evaluate("address => { location.hash = address }", address)
        assert hands.view() == shown
    hands.page.evaluate("() => { location.hash = '#t=1,0,1000000&e=99,99&s=0,1,70,80' }")
    hands.page.wait_for_function("() => document.querySelector('.plot').dataset.view === '0 1000000'")


def test_fingers_pinch_and_swipe(opened: Opened) -> None:
    hands = opened(has_touch=True, width=390, height=844)
    hands.press("0")
    hands.press("+")
    start, end = hands.view()
    client = hands.page.context.new_cdp_session(hands.page)
    x, y = hands.place("ops", (start + end) / 2)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x)
    for moved in range(0, 81, 8):
        touch("touchMove", x - moved)
    touch("touchEnd")
    swiped = hands.view()
    assert swiped[0] > start + 0.5
    assert swiped[1] - swiped[0] == pytest.approx(end - start)
    touch("touchStart", x - 20)
    touch("touchStart", x - 20, x + 20)
    for apart in range(20, 61, 5):
        touch("touchMove", x - apart, x + apart)
    touch("touchEnd")
    pinched = hands.view()
    assert pinched[1] - pinched[0] < 0.6 * (end - start)
    assert hands.page.evaluate("visualViewport.scale") == 1
    assert hands.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_tooltip_does_not_outlive_what_it_was_about(opened: Opened) -> None:
    hands = opened()
    hands.press("0")
    hands.page.mouse.move(*hands.place("host", 1.5))
    hands.page.wait_for_selector(".tip:not([hidden])")
    hands.press("PageDown")  # of the page, without the focus
    hands.press("d")
    assert not hands.page.locator(".tip").is_visible()


def test_the_axis_says_the_time_at_the_pointer(opened: Opened) -> None:
    hands = opened()
    before = hands.press("0")
    now = hands.page.locator(".plot .now")
    assert not now.is_visible()
    tick = hands.page.locator(".plot .ticks span", has_text="4 ms").bounding_box()
    assert tick
    lane = hands.place("host", 4)[1]
    hands.move(tick["x"], lane)
    assert now.inner_text().endswith(" ms")
    assert float(now.inner_text().split()[0]) == pytest.approx(4, abs=0.02)
    after = hands.press("d")  # which takes the time away from under the pointer
    assert float(now.inner_text().split()[0]) == pytest.approx(4 + after[0] - before[0], abs=0.02)
    hands.press("0")
    area, label = hands.area(), now.bounding_box()
    assert label
    assert label["x"] == pytest.approx(tick["x"], abs=2)
    hands.move(area["x"] + area["width"] - 2, lane)
    label = now.bounding_box()
    assert label
    assert label["x"] + label["width"] <= area["x"] + area["width"] + 1
    hands.move(2, 2)
    assert not now.is_visible()


SHARE = """([label]) => {
  const plot = document.querySelector(".plot");
  const name = [...plot.querySelectorAll(".names span")].find((one) => one.textContent === label);
  const canvas = plot.querySelector(".rows");
  const top = Math.round(parseFloat(name.style.top)) - 8;
  const { data } = canvas.getContext("2d").getImageData(canvas.width / 10, top, (8 * canvas.width) / 10, 16);
  let full = 0;
  for (let at = 3; at < data.length; at += 4) full += data[at] > 128 ? 1 : 0;
  return full / (data.length / 4);
}"""


def lightly_used(folder: Path) -> Path:
    builder = TraceBuilder()
    builder.step(0, 0, 400_000)
    for number in range(4000):
        builder.kernel(100 * number + 50, 40, launch=100 * number, name="gemm")
    return builder.write(folder / "steps.json")


def test_a_stream_looks_as_busy_as_it_is(opened: Opened) -> None:
    hands = opened(trace=lightly_used)
    hands.press("0")
    assert hands.page.evaluate(SHARE, ["stream 7"]) == pytest.approx(0.4, abs=0.04)


def test_two_timelines_of_a_page_do_not_fight_for_the_address(opened: Opened) -> None:
    hands = opened(lambda analysis: page_around("t", 2 * fragment(analysis)))
    hands.page.locator(".timeline").nth(1).scroll_into_view_if_needed()
    hands.page.wait_for_selector(".timeline[data-drawn] >> nth=1")
    first = hands.view()
    hands.page.locator(".plot").nth(1).focus()
    hands.press("+")
    hands.page.wait_for_function("() => location.hash.startsWith('#t=2,')")
    assert hands.view() == first
    hands.page.locator(".plot").nth(0).focus()
    hands.press("+")
    hands.page.wait_for_function("() => location.hash.startsWith('#t=1,')")


def test_keys_bring_a_timeline_that_is_not_seen_into_sight(opened: Opened) -> None:
    analysis = analysis_of(TRACES / "loss_item.stack.json.gz")
    hands = opened(lambda _: to_html([analysis]))
    hands.page.evaluate("scrollTo(0, 0)")
    before = hands.view()
    hands.press("w")
    assert hands.view() != before
    assert hands.page.locator(".plot").evaluate("plot => plot.getBoundingClientRect().top < innerHeight")
