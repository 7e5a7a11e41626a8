"use strict";
const codes = [...document.querySelectorAll("nav button")];
const marks = [...document.querySelectorAll("mark")];
const statusLine = document.getElementById("status");
const weights = marks.map(mark => new Map(mark.dataset.codes.split(" ").map(pair => pair.split(":").map(Number))));
let chosen = -1;

function highlight(code) {
  const heaviest = Math.max(...weights.map(own => own.get(code) || 0), 1e-9);
  marks.forEach((mark, i) => {
    const on = weights[i].has(code);
    mark.classList.toggle("on", on);
    if (on) mark.style.setProperty("--strength", 0.2 + 0.6 * weights[i].get(code) / heaviest);
  });
}

// Marks end where those of other codes begin: what stands side by side is one passage.
function passages(shown) {
  return shown.reduce((texts, mark, i) => {
    if (i && mark.previousSibling === shown[i - 1]) texts.push(texts.pop() + mark.textContent);
    else texts.push(mark.textContent);
    return texts;
  }, []).map(text => "“" + text + "”");
}

function choose(code, scroll) {
  chosen = code === chosen ? -1 : code;
  codes.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
  highlight(chosen);
  const shown = marks.filter(mark => mark.classList.contains("on"));
  statusLine.textContent = chosen < 0 ? statusLine.dataset.hint
    : codes[chosen].dataset.label + ": " + (passages(shown).join(", ") || "no evidence found");
  if (scroll && shown.length) {
    const strength = mark => Number(mark.style.getPropertyValue("--strength"));
    const best = shown.reduce((a, b) => strength(b) > strength(a) ? b : a);
    best.scrollIntoView({block: "nearest"});
  }
}

codes.forEach((button, i) => {
  button.addEventListener("mouseenter", () => highlight(i));
  button.addEventListener("mouseleave", () => highlight(chosen));
  button.addEventListener("focus", () => highlight(i));
  button.addEventListener("blur", () => highlight(chosen));
  button.addEventListener("click", () => choose(i, true));
});
marks.forEach((mark, i) => mark.addEventListener("click", () => {
  const [code] = [...weights[i]].reduce((a, b) => b[1] > a[1] ? b : a);
  if (code !== chosen) choose(code, false);
  codes[code].scrollIntoView({block: "nearest"});
}));
document.addEventListener("keydown", event => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  const at = codes.indexOf(document.activeElement);
  if (step && at >= 0) {
    codes[Math.min(codes.length - 1, Math.max(0, at + step))].focus();
    event.preventDefault();
  } else if (event.key === "Escape" && chosen >= 0) {
    choose(chosen, false);
  }
});

// note.html#CODE opens with that code chosen.
const asked = codes.findIndex(button => "#" + encodeURIComponent(button.dataset.label) === location.hash);
if (asked >= 0) choose(asked, true);
