import { fireEvent, screen, waitFor } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { ConvertDialog } from "./ConvertDialog";

beforeEach(() => {
  document.cookie = "skep_csrf=x";
});

const note = { code: "not_used", message: "The plugin tensorboard is not carried out here." };

test.each([
  "name: a\nprotocolVersion: 2\ntype: job\n",
  'protocolVersion: "2" # OpenPAI\nname: a\n',
  '{"protocolVersion": 2, "name": "a"}',
])(
  "finding U15: a job file of OpenPAI is taken as it is, with the notes of the check",
  async (text) => {
    const checked = {
      valid: true,
      errors: [],
      notes: [{ ...note, path: "extras", line: 3, column: 1 }],
      summary: null,
      forecast: null,
    };
    const requests = serve({ "POST /jobs/check": checked });
    const onConverted = vi.fn();
    renderPage(<ConvertDialog open onClose={vi.fn()} onConverted={onConverted} />);
    fireEvent.change(await screen.findByRole("textbox"), { target: { value: text } });
    fireEvent.click(screen.getByRole("button", { name: "Import" }));
    await waitFor(() =>
      expect(onConverted).toHaveBeenCalledWith({ text, notes: [{ ...note, line: 3 }] }),
    );
    expect(requests).toHaveLength(1);
  },
);
