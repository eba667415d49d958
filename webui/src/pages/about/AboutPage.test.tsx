import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aNode } from "@/test/rows";
import { serve } from "@/test/server";
import { AboutPage } from "./AboutPage";

test("nodes are counted by version, the newest first; what none reports is left out", async () => {
  const results = ["0.9.0", "0.10.0", "0.9.0"].map((agent_version, at) =>
    aNode({ id: String(at), name: `n${at}`, agent_version, driver_version: "" }),
  );
  serve({
    "GET /info": { name: "Skep", version: "0.10.0" },
    "GET /nodes": { results, next: null, previous: null },
  });
  renderPage(<AboutPage />);
  const agent = (await screen.findByText("Agent")).parentElement;
  expect(agent).toHaveTextContent("Agent0.10.0 on 1 node0.9.0 on 2 nodes");
  expect(screen.queryByText("GPU driver")).toBeNull();
});
