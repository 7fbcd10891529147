import { type ComponentType, lazy, type ReactNode, Suspense } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { Empty } from "../parts/notice.tsx";
import { Page } from "../parts/page.tsx";
import { Failsafe } from "./failsafe.tsx";

/** A part of the page that is loaded when somebody goes there. */
function lazily<Name extends string>(
  load: () => Promise<Record<Name, ComponentType>>,
  name: Name,
): ComponentType {
  return lazy<ComponentType>(async () => ({ default: (await load())[name] }));
}

const ROUTES: readonly (readonly [path: string, page: ComponentType])[] = [
  ["/", lazily(() => import("../pages/overview/overview-page.tsx"), "OverviewPage")],
  ["/backfills", lazily(() => import("../pages/backfills/backfill-list.tsx"), "BackfillList")],
  [
    "/backfills/new",
    lazily(() => import("../pages/backfills/create-backfill.tsx"), "CreateBackfill"),
  ],
  [
    "/backfills/:backfill_id",
    lazily(() => import("../pages/backfills/backfill-page.tsx"), "BackfillPage"),
  ],
  ["/assets", lazily(() => import("../pages/assets/asset-list.tsx"), "AssetList")],
  ["/lineage", lazily(() => import("../pages/assets/lineage-page.tsx"), "LineagePage")],
  ["/assets/:asset_key", lazily(() => import("../pages/assets/asset-page.tsx"), "AssetPage")],
  ["/runs", lazily(() => import("../pages/runs/run-list.tsx"), "RunList")],
  ["/runs/:run_id", lazily(() => import("../pages/runs/run-page.tsx"), "RunPage")],
  [
    "/runs/:run_id/tasks/:task_key",
    lazily(() => import("../pages/runs/task-page.tsx"), "TaskPage"),
  ],
  ["/schedules", lazily(() => import("../pages/schedules/schedule-list.tsx"), "ScheduleList")],
  [
    "/schedules/new",
    lazily(() => import("../pages/schedules/create-schedule.tsx"), "CreateSchedule"),
  ],
  [
    "/schedules/:schedule_id/edit",
    lazily(() => import("../pages/schedules/edit-schedule.tsx"), "EditSchedule"),
  ],
  [
    "/schedules/:schedule_id",
    lazily(() => import("../pages/schedules/schedule-page.tsx"), "SchedulePage"),
  ],
  ["/sensors", lazily(() => import("../pages/sensors/sensor-list.tsx"), "SensorList")],
  ["/sensors/:sensor_id", lazily(() => import("../pages/sensors/sensor-page.tsx"), "SensorPage")],
  ["/syncs", lazily(() => import("../pages/syncs/sync-list.tsx"), "SyncList")],
  ["/syncs/:sync_id", lazily(() => import("../pages/syncs/sync-page.tsx"), "SyncPage")],
  ["/moves", lazily(() => import("../pages/moves/move-list.tsx"), "MoveList")],
  ["/moves/new", lazily(() => import("../pages/moves/plan-move.tsx"), "PlanMove")],
  ["/moves/:move_id", lazily(() => import("../pages/moves/move-page.tsx"), "MovePage")],
  ["/splits", lazily(() => import("../pages/splits/split-list.tsx"), "SplitList")],
  ["/splits/new", lazily(() => import("../pages/splits/plan-split.tsx"), "PlanSplit")],
  ["/splits/:split_id", lazily(() => import("../pages/splits/split-page.tsx"), "SplitPage")],
  ["/routing", lazily(() => import("../pages/routing/routing-page.tsx"), "RoutingPage")],
  ["/conflicts", lazily(() => import("../pages/runs/conflict-list.tsx"), "ConflictList")],
  ["/ledger", lazily(() => import("../pages/ledger/ledger-page.tsx"), "LedgerPage")],
  ["/ledger/:entity", lazily(() => import("../pages/ledger/entity-page.tsx"), "EntityPage")],
];

/** The page that the address names. */
export function Routes(): ReactNode {
  const [location] = useLocation();
  return (
    <Switch>
      {ROUTES.map(([path, Shown]) => (
        <Route key={path} path={path}>
          {/* What was typed or chosen for one thing does not go along to the next of its kind. */}
          <Failsafe key={location}>
            <Suspense
              fallback={
                <p className="loading" role="status">
                  Loading…
                </p>
              }
            >
              <Shown />
            </Suspense>
          </Failsafe>
        </Route>
      ))}
      <Route>
        <Page title="Not found">
          <Empty title="There is nothing at this address.">
            <p>
              It may have been mistyped. <Link href="/">The overview</Link> shows what is going on.
            </p>
          </Empty>
        </Page>
      </Route>
    </Switch>
  );
}
