import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { RankGrid } from "./RankGrid";

test("the last lines are shown without their escape codes", async () => {
  const job = aWholeJob();
  const rank = { rank: 0, role: "worker", index: 0, attempt_id: "a", node: "n", state: "RUNNING" };
  const ranks = [{ ...rank, lines: ["\u001b[32mok\u001b[0m"] }];
  serve({ [`GET /jobs/${job.id}/log-tails`]: { attempt: 1, total: 1, ranks } });
  renderPage(<RankGrid job={job} first={0} attempt={undefined} />);
  expect((await screen.findByText("ok")).textContent).toBe("ok");
});
