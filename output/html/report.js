"use strict";
// The page is whole without this: it only adds the buttons that copy commands.
for (const command of document.querySelectorAll(".command")) {
  const text = command.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy the command " + command.dataset.number);
  button.addEventListener("click", async () => {
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text);
      done = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    }
    button.textContent = done;
    document.getElementById("told").textContent = done;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  command.append(button);
}
