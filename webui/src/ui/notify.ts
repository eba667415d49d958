import { notifications } from "@mantine/notifications";
import { errorMessage } from "@/api/errors";

/** Says that something was done. */
export function notifySuccess(message: string): void {
  notifications.show({ message, color: "honey", autoClose: 4000 });
}

/** Says that something was refused, in the server's own words. */
export function notifyError(error: unknown, title = "That did not work"): void {
  notifications.show({ title, message: errorMessage(error), color: "red", autoClose: 10_000 });
}
