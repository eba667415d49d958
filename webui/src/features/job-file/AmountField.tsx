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
  const complete = typed === null || isNumber(typed);
  useEffect(() => input.current?.setCustomValidity(complete ? "" : "Enter a number."));
  return (
    <NumberInput
      {...field}
      ref={input}
      prefix={typed === null ? prefix : undefined}
      value={typed ?? value}
      onChange={(next) => {
        setTyped(typeof next === "number" ? null : next);
        const number = typeof next === "number" || isNumber(next) ? Number(next) : value;
        if (number !== value) onChange(number);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}

/** As "0.50", which stays a text until the field is left, so that more digits can follow. */
function isNumber(text: string): boolean {
  return text !== "" && Number.isFinite(Number(text));
}
