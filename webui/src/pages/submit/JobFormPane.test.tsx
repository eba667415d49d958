import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { JobFormPane } from "./JobFormPane";

const FILE = `name: train
parameters:
  epochs: 5
taskRoles:
  worker:
    instances: 4
`;

function Page() {
  const [text, setText] = useState(FILE);
  return (
    <>
      <JobFormPane text={text} onText={setText} />
      <pre data-testid="file">{text}</pre>
    </>
  );
}

test.each([
  ["Tasks", "4", "instances: 12"],
  ["epochs", "5", "epochs: 12"],
])("an emptied number (%s) is that of the job file again when one leaves it", async (...row) => {
  const [label, before, written] = row;
  serve({});
  renderPage(<Page />);
  const field = await screen.findByRole("textbox", { name: label });
  await userEvent.clear(field);
  expect(field).toHaveValue("");
  await userEvent.tab();
  expect(field).toHaveValue(before);
  expect(screen.getByTestId("file").textContent).toBe(FILE);

  await userEvent.clear(field);
  await userEvent.type(field, "12");
  await userEvent.tab();
  expect(field).toHaveValue("12");
  expect(screen.getByTestId("file")).toHaveTextContent(written);
});
