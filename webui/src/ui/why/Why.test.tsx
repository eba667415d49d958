import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { Why } from "./Why";

const soon = Date.now() / 1000 + 25 * 60;
const reason = {
  code: "vc_busy",
  message: "Needs 2 nodes of 8 A100; vision owns 4, 3 are used.",
  details: {
    needs: {
      gpus: 16,
      gpu_model: "NVIDIA A100",
      tasks: 2,
      shape: "2 nodes of 8 A100",
      whole_nodes: true,
    },
    owns: 32,
    nodes: { owns: 4, used: 3, bad: 1 },
    used_by: [
      { gang: "j1", name: "bert", gpus: 8, until: soon },
      { gang: "", name: "a job of another team", gpus: 4, until: null },
    ],
    more: 1,
    bad: 1,
    ahead: 1,
    expected_start: soon,
    opportunistic_now: true,
  },
};

function figure(name: string): string | null | undefined {
  return screen.getByText(name, { selector: "dt" }).parentElement?.querySelector("dd")?.textContent;
}

test("the sentence comes with its numbers, who uses what until when, and the hint", async () => {
  renderPage(<Why reason={reason} vc="vision" />);
  expect(await screen.findByText(reason.message)).toBeVisible();
  expect(figure("Needs")).toBe("2 nodes of 8 A100");
  expect(figure("vision owns")).toBe("4 nodes");
  expect(figure("Used")).toBe("3");
  expect(figure("Ahead")).toBe("1 job");
  expect(figure("Expected start")).toMatch(/\d\d:\d\d in about 25 min$/);
  expect(figure("Used by")).toMatch(/bert 8 GPUs, until about .*\d\d:\d\d/);
  expect(figure("Used by")).toMatch(/another team 4 GPUs, end not known.*and 1 more job$/);
  expect(screen.getByRole("link", { name: "bert" })).toHaveAttribute("href", "/jobs/j1");
  expect(screen.getByText(/could start now as opportunistic/)).toBeVisible();
});

test("of a start that nobody knows that is said", async () => {
  renderPage(<Why reason={{ code: "vc_busy", message: "Busy.", details: {} }} vc="vision" />);
  await screen.findByText("Busy.");
  expect(figure("Expected start")).toBe("not known");
});

test("a reason without numbers is only its sentence", async () => {
  renderPage(<Why reason={{ code: "x", message: "Not now.", details: {} }} vc="vision" />);
  expect(await screen.findByText("Not now.")).toBeVisible();
  expect(screen.queryByRole("term")).toBeNull();
});
