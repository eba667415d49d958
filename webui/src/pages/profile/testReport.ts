import type { Delivery } from "@/api/types";
import { notifyError, notifySuccess } from "@/ui/notify";

/** Says what became of a test. */
export function reportTest(delivery: Delivery, sent: string): void {
  if (delivery.state === "sent") return notifySuccess(sent);
  const error =
    delivery.error || "It is still on its way: look at the list of what was sent later.";
  notifyError(new Error(error), "The test was not delivered");
}
