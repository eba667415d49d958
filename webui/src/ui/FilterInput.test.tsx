import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { FilterInput } from "./FilterInput";

function Filtered() {
  const [text, setText] = useState("");
  return (
    <>
      <FilterInput label="Name" placeholder="" icon="search" value={text} onChange={setText} />
      <output>{text}</output>
      <button onClick={() => setText("")}>Clear</button>
      <button onClick={() => setText("my")}>Mine</button>
    </>
  );
}

test("a space at the end of the text stays while more is typed, and what is chosen elsewhere shows", async () => {
  renderPage(<Filtered />);
  const field = await screen.findByRole("searchbox", { name: "Name" });
  await userEvent.type(field, "my ");
  await waitFor(() => expect(screen.getByRole("status")).toHaveTextContent("my"));
  await userEvent.type(field, "job");
  await waitFor(() => expect(screen.getByRole("status")).toHaveTextContent("my job"));
  expect(field).toHaveValue("my job");
  await userEvent.click(screen.getByRole("button", { name: "Clear" }));
  expect(field).toHaveValue("");
  await userEvent.click(screen.getByRole("button", { name: "Mine" }));
  expect(field).toHaveValue("my");
});
