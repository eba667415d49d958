import { useState } from "react";

/** The text of a field whose value stands elsewhere, as in the address, which follows later and may
 * be another spelling of it. What is typed stays until the value is changed by something else.
 * `setSent` is called with what the field gives out as its value. */
export function useTyped(value: string) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  const [sent, setSent] = useState(value);
  if (known !== value) {
    setKnown(value);
    if (value !== sent) {
      setSent(value);
      setTyped(value);
    }
  }
  return { typed, setTyped, setSent };
}
