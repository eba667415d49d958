import { NumberInput, type NumberInputProps } from "@mantine/core";
import { useEffect, useRef, useState } from "react";

interface Props extends Omit<NumberInputProps, "value" | "defaultValue" | "onChange" | "onBlur"> {
  value: number;
  onChange: (value: number) => void;
}

/** A number that stands elsewhere, as in the job file. What is no number, such as an emptied field or
 * a lone sign, is not written there, keeps a form from being sent, and makes way for the number when
 * the field is left. */
export function AmountField({ value, onChange, prefix, ...field }: Props) {
  const [typed, setTyped] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  // A lone sign counts as filled in for the browser.
  useEffect(() => input.current?.setCustomValidity(typed === null ? "" : "Enter a number."));
  return (
    <NumberInput
      {...field}
      ref={input}
      prefix={typed === null ? prefix : undefined}
      value={typed ?? value}
      onChange={(next) => {
        setTyped(typeof next === "number" ? null : next);
        if (typeof next === "number" && next !== value) onChange(next);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}
