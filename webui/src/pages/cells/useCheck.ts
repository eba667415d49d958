import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { assignmentCheck } from "@/api/cells";
import type { Assignment, CheckedAssignment } from "@/api/types";
import { toAssignment, type Draft } from "./draft";

const DEBOUNCE_MS = 250;

/** `about` is what was asked. */
export type AssignmentCheck = CheckedAssignment & { about: Assignment };

export interface CheckState {
  /** What the server said of this draft, or while it is asked, of the one before. */
  result: AssignmentCheck | undefined;
  busy: boolean;
  error: unknown;
}

/** Asks the server about each draft, once the hand rests. */
export function useCheck(draft: Draft, revision: number): CheckState {
  const now = useMemo(() => toAssignment(draft, revision), [draft, revision]);
  const [about] = useDebouncedValue(now, DEBOUNCE_MS);
  const check = useQuery(assignmentCheck(about));
  return {
    result: check.data,
    busy: about !== now || check.isFetching,
    error: check.error,
  };
}
