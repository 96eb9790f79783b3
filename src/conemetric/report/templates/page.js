"use strict";
(() => {
  // ---- tabs, by mouse and by arrow keys

  const tabs = [...document.querySelectorAll('[role="tab"]')];
  function choose(tab, focus) {
    for (const other of tabs) {
      const on = other === tab;
      other.setAttribute("aria-selected", on);
      other.tabIndex = on ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !on;
    }
    if (focus) tab.focus();
    try { history.replaceState(null, "", "#" + tab.id.slice(4)); } catch { /* not allowed in a sandboxed frame */ }
  }
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const target = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step ? (i + step + tabs.length) % tabs.length : null;
      if (target === null) return;
      event.preventDefault();
      choose(tabs[target], true);
    });
  });

  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const text = button.nextElementSibling.textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Select and copy"; }
      setTimeout(() => { button.textContent = "Copy"; }, still.matches ? 4000 : 1500);
    });
  }

  const wanted = tabs.find((tab) => "#" + tab.id.slice(4) === location.hash);
  choose(wanted || tabs[0]);
})();
