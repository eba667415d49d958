import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { RunAgainButtons } from "./RunAgain";

test("a lone minus is no amount of memory, and is not sent", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({});
  const more_memory = { role: "worker", memory_mb: 1024, suggested_mb: 2048 };
  renderPage(
    <RunAgainButtons job={aWholeJob({ state: "FAILED", may_clone: true, more_memory })} />,
  );
  await userEvent.click(await screen.findByRole("button", { name: "Run again with more memory" }));
  const field = await screen.findByRole("textbox", { name: /^Memory of each task of worker/ });
  await userEvent.clear(field);
  await userEvent.type(field, "-{Enter}");
  expect(field).toHaveValue("");
  expect(requests).toHaveLength(0);
});
