import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { AboutPage } from "./AboutPage";

test("nodes are counted by version, the newest first; what none reports is left out", async () => {
  serve({
    "GET /info": { name: "Skep", version: "0.10.0" },
    "GET /cluster": {
      nodes: { ONLINE: 3 },
      gpus: {},
      jobs: {},
      version: "0.10.0",
      versions: { agent: { "0.9.0": 2, "0.10.0": 1 }, engine: {}, driver: {} },
    },
  });
  renderPage(<AboutPage />);
  const agent = (await screen.findByText("Agent")).parentElement;
  expect(agent).toHaveTextContent("Agent0.10.0 on 1 node0.9.0 on 2 nodes");
  expect(screen.queryByText("GPU driver")).toBeNull();
});
