import { describe, expect, test } from "vitest";
import { positionAt } from "./yamlPath";

/** The place of the cursor, which the text marks with "|". */
function place(text: string) {
  const at = text.indexOf("|");
  return positionAt(text.replace("|", ""), at);
}

describe("where the cursor is", () => {
  test.each([
    ["|", [], null],
    ["na|", [], null],
    ["name: x\n|", [], null],
    ["roles:\n  |", ["roles"], null],
    ["roles:\n  w:\n    |", ["roles", "w"], null],
    ["roles:\n  w:\n    gpu: 1\n  |", ["roles"], null],
    ["roles:\n  w:\n    gpu: |", ["roles", "w"], "gpu"],
    ["roles:\n  w:\n    res:\n      cpu: 1\n\n    # note\n    |", ["roles", "w"], null],
    ["list:\n  - name: a\n    |", ["list", 0], null],
    ["list:\n  - |", ["list", 0], null],
    ["list:\n- name: a\n  ty|", ["list", 0], null],
    ["list:\n- name: a\n- |", ["list", 0], null],
    ["list:\n- name: a\nother|", [], null],
    ["list:\n  - type: |", ["list", 0], "type"],
  ])("%j", (text, path, key) => expect(place(text)).toEqual({ path, key }));
});
