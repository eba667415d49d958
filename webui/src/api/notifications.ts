import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { Delivery, NotificationChannel } from "./types";

/** A prefix of the keys of every query about the user's notifications. */
export const NOTIFICATIONS = ["notifications"];
const NEWEST = 8;

export const unreadCount = queryOptions({
  queryKey: [...NOTIFICATIONS, "unread"],
  queryFn: async () => (await unwrap(client.GET("/api/v1/notifications/unread"))).unread,
});

export const newestNotifications = queryOptions({
  queryKey: [...NOTIFICATIONS, "newest"],
  queryFn: async () => {
    const params = { query: { limit: NEWEST } };
    return (await unwrap(client.GET("/api/v1/notifications", { params }))).results;
  },
});

export const notificationPage = (unread: boolean, cursor: string | undefined) =>
  queryOptions({
    queryKey: [...NOTIFICATIONS, "page", unread, cursor],
    queryFn: () =>
      unwrap(
        client.GET("/api/v1/notifications", {
          params: { query: { ...(unread && { unread }), ...(cursor && { cursor }) } },
        }),
      ),
  });

/** Without `ids` all of them. */
export function markRead(ids?: string[]) {
  return unwrap(client.POST("/api/v1/notifications/read", { body: ids ? { ids } : {} }));
}

export const notificationPreferences = queryOptions({
  queryKey: ["notification-preferences"],
  queryFn: () => unwrap(client.GET("/api/v1/notifications/preferences")),
});

export function setPreference(event: string, channel: NotificationChannel, on: boolean) {
  const body = { events: { [event]: { [channel]: on } } };
  return unwrap(client.PATCH("/api/v1/notifications/preferences", { body }));
}

export const webhooks = queryOptions({
  queryKey: ["webhooks"],
  queryFn: async () => (await unwrap(client.GET("/api/v1/webhooks"))).results,
});

export function createWebhook(body: { name: string; url: string; format: "skep" | "slack" }) {
  return unwrap(client.POST("/api/v1/webhooks", { body }));
}

export function enableWebhook(id: string, enabled: boolean) {
  return unwrap(
    client.PATCH("/api/v1/webhooks/{id}", { params: { path: { id } }, body: { enabled } }),
  );
}

export function deleteWebhook(id: string) {
  return unwrap(client.DELETE("/api/v1/webhooks/{id}", { params: { path: { id } } }));
}

const POLL_MS = 1000;
const MOST_POLLS = 30;

/** Sends a test, and waits until it was sent or has failed; after half a minute it is returned as
 * it is. */
export async function sendTest(channel: "email" | "webhook", webhook?: string): Promise<Delivery> {
  const body = { channel, ...(webhook && { webhook }) };
  let delivery = await unwrap(client.POST("/api/v1/notifications/test", { body }));
  const params = { path: { id: delivery.id } };
  for (let polls = 0; delivery.state === "pending" && polls < MOST_POLLS; polls += 1) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    delivery = await unwrap(client.GET("/api/v1/notifications/deliveries/{id}", { params }));
  }
  return delivery;
}

export function unsubscribe(token: string) {
  return unwrap(client.POST("/api/v1/notifications/unsubscribe", { body: { token } }));
}
