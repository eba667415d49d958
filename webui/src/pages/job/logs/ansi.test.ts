import { describe, expect, test } from "vitest";
import { parseAnsi, plainText } from "./ansi";

const ESC = "\u001b";
const spans = (line: string) => parseAnsi(line).spans;

describe("colours", () => {
  test("a plain line is one span", () =>
    expect(spans("step 10")).toEqual([{ text: "step 10", look: {} }]));

  test("begin and end where they are written", () =>
    expect(spans(`a ${ESC}[1;31mbad${ESC}[0m b`)).toEqual([
      { text: "a ", look: {} },
      { text: "bad", look: { bold: true, fg: "1" } },
      { text: " b", look: {} },
    ]));

  test.each([
    ["[96m", { fg: "14" }],
    ["[44m", { bg: "4" }],
    ["[38;5;3m", { fg: "3" }],
    ["[38;5;196m", { fg: "#ff0000" }],
    ["[48;5;244m", { bg: "#808080" }],
    ["[38;2;255;128;0m", { fg: "#ff8000" }],
    ["[38;2;999;0;0m", {}],
    ["[4;38;5;2;9m", { underline: true, fg: "2", strike: true }],
  ])("%s", (code, look) => expect(spans(`${ESC}${code}x`)[0]?.look).toEqual(look));

  test("go on in the next line where one left off", () => {
    const { end } = parseAnsi(`${ESC}[32mgreen`);
    expect(parseAnsi("still", end).spans[0]?.look).toEqual({ fg: "2" });
  });
});

describe("what could harm or confuse", () => {
  test.each([
    ["a window title", `${ESC}]0;evil title\u0007text`],
    ["a link", `${ESC}]8;;https://evil.example${ESC}\\te${ESC}]8;;${ESC}\\xt`],
    ["cursor movement and erasing", `${ESC}[2K${ESC}[1Ate${ESC}[10;20Hxt`],
    ["a device control string", `${ESC}P1$r0m${ESC}\\text`],
    ["a BEL and a NUL", "\u0007te\u0000xt"],
    ["text turned around", "te\u202ext"],
    ["an escape at the end", `text${ESC}`],
  ])("%s is dropped", (_, line) => {
    expect(plainText(line)).toBe("text");
    expect(
      spans(line)
        .map((span) => span.text)
        .join(""),
    ).toBe("text");
  });

  test("an unfinished title swallows its line and not more", () =>
    expect(plainText(`a${ESC}]0;never ended`)).toBe("a"));
});
