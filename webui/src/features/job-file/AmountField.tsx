import { NumberInput, type NumberInputProps } from "@mantine/core";
import { useState } from "react";

interface Props extends Pick<NumberInputProps, "label" | "title" | "min"> {
  value: number;
  onChange: (value: number) => void;
}

/** A number of the job file. What is no number, such as an emptied field, is not written there, and
 * makes way for the number in the file when the field is left. */
export function AmountField({ value, onChange, ...field }: Props) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <NumberInput
      {...field}
      value={typed ?? value}
      onChange={(next) => {
        setTyped(typeof next === "number" ? null : next);
        if (typeof next === "number" && next !== value) onChange(next);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}
