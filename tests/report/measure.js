// What is wrong with the layout of a page, and where its sections and figures lie. Runs outside of the page.
function measure(page) {
  const view = page.defaultView, problems = [];
  page.querySelectorAll("details").forEach((details) => { details.open = true; });
  const box = (element) => element.getBoundingClientRect();
  const empty = (b) => b.width === 0 || b.height === 0;
  const named = (element) => {
    const label = element.id || element.getAttribute("class") || "";
    return `<${element.tagName.toLowerCase()} ${label}> ${element.textContent.trim().slice(0, 30)}`;
  };
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const pairs = (elements, kind) => elements.forEach((first, place) => elements.slice(place + 1).forEach((second) => {
    if (overlap(box(first), box(second))) problems.push(`${kind}: ${named(first)} and ${named(second)}`);
  }));

  if (page.documentElement.scrollWidth > view.innerWidth) problems.push("wide: the page scrolls sideways");
  const outside = [...page.body.querySelectorAll("*")].filter((element) => !element.ownerSVGElement);
  for (const element of outside) {
    const scroller = element.closest(".scroll"), b = box(element);
    if (empty(b) || (scroller && scroller !== element)) continue;
    if (b.left < -1 || b.right > view.innerWidth + 1) problems.push(`wide: ${named(element)}`);
  }
  for (const scroller of page.querySelectorAll(".scroll")) {
    if (scroller.closest("details")) continue; // opened just now: its timeline starts with the next frame
    const wide = scroller.scrollWidth > scroller.clientWidth + 1;
    const hinted = view.getComputedStyle(scroller, "::before").display !== "none";
    if (wide !== hinted) problems.push(`hint: ${wide ? "absent" : "needless"} at ${scroller.getAttribute("aria-label")}`);
  }
  for (const parent of [page.body, ...outside]) {
    if (parent.tagName.toLowerCase() === "svg") continue;
    const blocks = [...parent.children].filter((child) =>
      !empty(box(child)) && !view.getComputedStyle(child).display.startsWith("inline"));
    pairs(blocks, "overlap");
  }
  for (const svg of page.querySelectorAll("svg")) {
    const texts = [...svg.querySelectorAll("text")], frame = box(svg);
    pairs(texts, `text in ${svg.closest("figure").id}`);
    for (const text of texts) {
      const b = box(text);
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
        problems.push(`text leaves ${svg.closest("figure").id}: ${text.textContent}`);
    }
  }
  const sizes = {};
  for (const element of page.querySelectorAll("section, figure, .drawing > svg")) {
    const b = box(element);
    sizes[element.id || `svg of ${element.closest("figure").id}`] = [b.width, b.height];
  }
  const smallest = Math.min(...[...page.querySelectorAll("svg text")].map((text) =>
    parseFloat(view.getComputedStyle(text).fontSize) * text.getScreenCTM().a).filter((size) => size > 0.1));
  return { problems, sizes, smallest: isFinite(smallest) ? smallest : null, width: view.innerWidth, title: page.title };
}
