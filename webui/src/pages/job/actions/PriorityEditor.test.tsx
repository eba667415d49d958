import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { PriorityEditor } from "./PriorityEditor";

test("a lone minus is no priority, and is not sent", async () => {
  document.cookie = "skep_csrf=x";
  const job = aWholeJob({ state: "WAITING", may_prioritise: true });
  const requests = serve({ [`PUT /jobs/${job.id}/priority`]: job });
  renderPage(<PriorityEditor job={job} />);
  await userEvent.click(await screen.findByTitle("Change the priority"));
  const field = await screen.findByRole("textbox", { name: "Priority" });
  await userEvent.clear(field);
  await userEvent.type(field, "-{Enter}");
  expect(field).toHaveValue("");
  expect(requests).toHaveLength(0);

  await userEvent.type(field, "7{Enter}");
  await waitFor(() => expect(requests).toHaveLength(1));
  expect(await requests[0]?.json()).toEqual({ priority: 7 });
});
