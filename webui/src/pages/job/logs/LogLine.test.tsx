import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { aChunk } from "@/test/rows";
import { assemble } from "./assemble";
import { LogLine } from "./LogLine";

function draw(text: string, needle = "") {
  const [line] = assemble([aChunk(1, `${text}\n`)]).lines;
  if (!line) throw new Error("no line");
  return render(
    <LogLine
      line={line}
      text={line.text}
      needle={needle}
      current={false}
      ranks
      times={false}
      index={0}
      tabStop={false}
      onLink={() => undefined}
    />,
  );
}

test("markup in a log is text", () => {
  const { container } = draw('<img src=x onerror="alert(1)"><b>hi</b>');
  expect(container.querySelector("img, b")).toBeNull();
  expect(container).toHaveTextContent('<img src=x onerror="alert(1)"><b>hi</b>');
});

test("names the task", () => expect(draw("x").getByText("worker-0")).toBeVisible());

test("marks what was searched for, also across a change of colour", () => {
  const { container } = draw("a lo\u001b[31mss\u001b[0m of 3", "loss");
  const marks = [...container.querySelectorAll("mark")].map((mark) => mark.textContent);
  expect(marks).toEqual(["lo", "ss"]);
});
