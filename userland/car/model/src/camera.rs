//! The camera's view of the road, from the place of the car.
//!
//! The camera looks forward from above the car's centre of gravity, through a lens that [distorts](calibration). Each pixel has the light of a ray to
//! the road, averaged over the width of the pixel there, and noise. The road is level; it has two lanes of 3.5 m, of which the car drives on the
//! right one, with edge lines of 0.12 m and dashes of 3 m between gaps of 6 m (German *Richtlinien fuer die Markierung von Strassen*, RMS-1).
//! An obstacle of the size of a car's rear stands on the lane.
//!
//! A picture is a function of the place of the car, of the obstacle's, and of the number of the picture, which is the seed of its noise. Rays are
//! computed once, at compile time; the view of a picture is integers, so a picture costs some 60 instructions a pixel.

use car_kernels::calibration::{self, COSINE, FOCAL, HEIGHT, LENS, RISE, SINE, WIDTH};

use crate::course::{self, Point};
use crate::numbers::{random, rounded, sine_cosine};
use crate::vehicle::Car;

/// Grey levels.
const SKY: i32 = 170;
const GRASS: i32 = 60;
const ROAD: i32 = 90;
const MARK: i32 = 200;
const OBSTACLE: i32 = 30;

/// Millimetres to the left of the centre of the lane: both borders of the road, both edge lines, the dashes between the lanes.
const BORDERS: [i32; 2] = [-2250, 5750];
const EDGES: [i32; 2] = [-calibration::LANE / 2, 3 * calibration::LANE / 2];
const MIDDLE: i32 = calibration::LANE / 2;
/// Millimetres of half the width of a mark.
const HALF_MARK: i32 = 60;
/// Millimetres of a dash, and from one dash to the next.
const DASH: i32 = 3000;
const DASHES: i32 = 9000;

/// Metres of half the width of the obstacle, and its height.
const OBSTACLE_HALF: f64 = 0.9;
const OBSTACLE_HEIGHT: f64 = 1.5;

/// Millimetres of a part of the road, along the axis of the car.
const PART: i32 = 1 << PART_BITS;
const PART_BITS: u32 = 10;
/// Parts up to the farthest road that is seen.
const PARTS: usize = 60;
/// Bits after the point of sines, and of curvatures in 1/mm.
const SINE_BITS: u32 = 14;
const CURVATURE_BITS: u32 = 34;

/// A pixel's ray.
#[derive(Clone, Copy)]
struct Ray {
    /// Right and down, for a distance of 1 along the axis of the camera, in 1/2^14.
    slopes: [i16; 2],
    /// The place where it meets the road, forward and to the left, in mm. Forward is zero if that is too far away.
    place: [i32; 2],
    /// Width and length of the pixel there, in mm.
    size: [u16; 2],
}

static RAYS: [[Ray; WIDTH]; HEIGHT] = rays();

/// The ray of a pixel at so many pixels from the centre, without the distortion.
const fn straight(x: f64, y: f64) -> [f64; 2] {
    let (x, y) = (x / FOCAL, y / FOCAL);
    let (mut scale, mut round) = (1.0, 0);
    while round < 8 {
        scale = 1.0 + LENS * (x * x + y * y) / (scale * scale);
        round += 1;
    }
    [x / scale, y / scale]
}

const fn rays() -> [[Ray; WIDTH]; HEIGHT] {
    let none = Ray { slopes: [0; 2], place: [0; 2], size: [0; 2] };
    let mut rays = [[none; WIDTH]; HEIGHT];
    let mut y = 0;
    while y < HEIGHT {
        let mut x = 0;
        while x < WIDTH {
            rays[y][x] = ray(x, y);
            x += 1;
        }
        y += 1;
    }
    rays
}

const fn ray(x: usize, y: usize) -> Ray {
    let [right, down] = straight(x as f64 - (WIDTH - 1) as f64 / 2.0, y as f64 - (HEIGHT - 1) as f64 / 2.0);
    let slopes = [rounded(right * 16384.0) as i16, rounded(down * 16384.0) as i16];
    let (sinks, goes) = (SINE + down * COSINE, COSINE - down * SINE);
    // Metres along the axis of the camera until the ray is on the road.
    let distance = if sinks > 1e-3 { RISE / sinks } else { 0.0 };
    let (forward, left) = (distance * goes, -distance * right);
    if forward <= 0.0 || rounded(forward * 1000.0) >= (PARTS as i32) << PART_BITS {
        return Ray { slopes, place: [0; 2], size: [0; 2] };
    }
    let size = [distance / FOCAL, distance * distance / (FOCAL * RISE)];
    Ray {
        slopes,
        place: [rounded(forward * 1000.0), rounded(left * 1000.0)],
        size: [rounded(size[0] * 1000.0) as u16, rounded(size[1] * 1000.0) as u16],
    }
}

/// The centre of the lane within a part of the road, which is [`PART`] long.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Millimetres to the left of the car's axis, at the middle of the part.
    left: i32,
    /// Direction of the lane from the car's axis.
    sine: i32,
    cosine: i32,
    curvature: i64,
    /// Millimetres along the lane, from the beginning of a dash.
    along: i32,
}

/// The rear of the obstacle, as the car sees it: metres forward and to the left, and the direction of the lane there.
#[derive(Clone, Copy)]
struct Rear {
    forward: f64,
    left: f64,
    sine: f64,
    cosine: f64,
    /// Columns and rows of pixels beyond which there is nothing of it.
    columns: [i16; 2],
    rows: [i16; 2],
}

/// The road, as the car sees it.
pub struct View {
    lanes: [Lane; PARTS],
    rear: Option<Rear>,
    seed: u64,
}

impl View {
    /// The view of `car` that is picture `number`. The obstacle's rear is at so many metres along the course.
    #[must_use]
    pub fn of(car: &Car, obstacle: f64, number: u32) -> View {
        let (sine, cosine) = sine_cosine(car.heading);
        let from_car = |point: &Point| {
            let (east, north) = (point.place[0] - car.place[0], point.place[1] - car.place[1]);
            let (along, across) = point.direction;
            (
                [east * cosine + north * sine, north * cosine - east * sine],
                (along * cosine - across * sine, across * cosine + along * sine),
            )
        };
        let mut along = car.along;
        let lanes = core::array::from_fn(|part| {
            let forward = (part as f64 + 0.5) * f64::from(PART) / 1000.0;
            for _ in 0..3 {
                let ([there, _], (_, cosine)) = from_car(&course::at(along));
                along += (forward - there) / cosine.max(0.2);
            }
            let point = course::at(along);
            let ([_, left], (sine, cosine)) = from_car(&point);
            let unit = f64::from(1 << SINE_BITS);
            Lane {
                left: rounded(left * 1000.0),
                sine: rounded(sine * unit),
                cosine: rounded(cosine * unit),
                curvature: (point.curvature / 1000.0 * (1_u64 << CURVATURE_BITS) as f64) as i64,
                along: rounded(along * 1000.0),
            }
        });
        let ahead = obstacle - car.along;
        let ahead = if ahead < 0.0 { ahead + course::LENGTH } else { ahead };
        let point = course::at(car.along + ahead);
        let ([forward, left], (sine, cosine)) = from_car(&point);
        let is_seen = ahead < f64::from(PART) / 1000.0 * PARTS as f64 && forward > 0.5;
        let rear = is_seen.then(|| Rear::new(forward, left, (sine, cosine)));
        View { lanes, rear, seed: u64::from(number) << 16 }
    }

    /// Renders row `y` of the picture.
    pub fn row(&self, y: usize, row: &mut [u8; WIDTH]) {
        let mut state = self.seed | y as u64;
        let mut noise = 0;
        for (x, (pixel, ray)) in row.iter_mut().zip(&RAYS[y]).enumerate() {
            let light = match ray.place[0] {
                0 => SKY,
                forward => self.lanes[(forward >> PART_BITS) as usize].light(ray, forward),
            };
            let light = match &self.rear {
                Some(rear) if rear.may_cover(x, y) => rear.over(light, ray),
                _ => light,
            };
            noise = if x % 4 == 0 { random(&mut state) } else { noise >> 16 };
            *pixel = (light + deviation(noise as u16)).clamp(0, 255) as u8;
        }
    }
}

/// Noise of a pixel, in grey levels: nearly normal, with a standard deviation of 3.7. A camera with a full well of 10,000 electrons has shot noise
/// of 2.5 levels of 255 in the light (EMVA 1288), and less in the dark.
fn deviation(random: u16) -> i32 {
    let nibbles = [0, 4, 8, 12].map(|bits| i32::from(random >> bits & 15));
    (nibbles[0] + nibbles[1] + nibbles[2] + nibbles[3] - 30) * 2 / 5
}

/// Parts of 256 of a pixel of `size` around `place` that are within `half` of `centre`.
fn share(place: i32, size: i32, centre: i32, half: i32) -> i32 {
    let reach = size / 2 + half;
    let distance = (place - centre).abs();
    if distance >= reach { 0 } else { ((reach - distance) * 256 / size).min(256).min(512 * half / size) }
}

fn mixed(under: i32, over: i32, share: i32) -> i32 {
    under + (over - under) * share / 256
}

impl Lane {
    /// The light of the road where a ray meets it.
    fn light(&self, ray: &Ray, forward: i32) -> i32 {
        let (ahead, left) = ((forward & (PART - 1)) - PART / 2, ray.place[1] - self.left);
        let along = (ahead * self.cosine + left * self.sine) >> SINE_BITS;
        let across = (left * self.cosine - ahead * self.sine) >> SINE_BITS;
        let sagitta = (i64::from(along) * i64::from(along) * self.curvature) >> (CURVATURE_BITS + 1);
        let across = across - sagitta as i32;
        let [width, length] = ray.size.map(i32::from);
        let [right, left] = BORDERS;
        let road = share(across, width, i32::midpoint(left, right), (left - right) / 2);
        if road == 0 {
            return GRASS;
        }
        let light = mixed(GRASS, ROAD, road);
        let light = EDGES.iter().fold(light, |light, edge| mixed(light, MARK, share(across, width, *edge, HALF_MARK)));
        match share(across, width, MIDDLE, HALF_MARK) {
            0 => light,
            middle => mixed(light, MARK, middle * self.dash(along, length) / 256),
        }
    }

    /// Parts of 256 of a pixel of this length that are on a dash.
    fn dash(&self, along: i32, length: i32) -> i32 {
        let place = (self.along + along).rem_euclid(DASHES);
        let one = |centre: i32| share(place, length.max(1), centre, DASH / 2);
        match length >= DASHES - DASH {
            true => 256 * DASH / DASHES,
            false => (one(DASH / 2) + one(DASH / 2 + DASHES)).min(256),
        }
    }
}

impl Rear {
    fn new(forward: f64, left: f64, (sine, cosine): (f64, f64)) -> Rear {
        // Corners without the distortion, which moves them inwards, and two pixels more.
        let pixels = |along: f64, left: f64, height: f64| {
            let (down, ahead) = (RISE - height, along);
            let depth = (ahead * COSINE + down * SINE).max(0.1);
            [-FOCAL * left / depth, FOCAL * (down * COSINE - ahead * SINE) / depth]
        };
        let corners = [
            pixels(forward, left - 1.2 * OBSTACLE_HALF, OBSTACLE_HEIGHT),
            pixels(forward, left + 1.2 * OBSTACLE_HALF, 0.0),
        ];
        let column = |x: f64| ((WIDTH / 2) as f64 + x).clamp(-2.0, (WIDTH + 2) as f64) as i16;
        let row = |y: f64| ((HEIGHT / 2) as f64 + y).clamp(-2.0, (HEIGHT + 2) as f64) as i16;
        let columns = [column(corners[1][0].min(0.0)) - 3, column(corners[0][0].max(0.0)) + 3];
        let rows = [row(corners[0][1].min(0.0)) - 3, row(corners[1][1].max(0.0)) + 3];
        Rear { forward, left, sine, cosine, columns, rows }
    }

    fn may_cover(&self, x: usize, y: usize) -> bool {
        (self.columns[0]..=self.columns[1]).contains(&(x as i16)) && (self.rows[0]..=self.rows[1]).contains(&(y as i16))
    }

    /// The light of a ray that may meet the obstacle, and otherwise passes it.
    fn over(&self, light: i32, ray: &Ray) -> i32 {
        let [right, down] = ray.slopes.map(|slope| f64::from(slope) / 16384.0);
        let (goes, sinks, left) = (COSINE - down * SINE, SINE + down * COSINE, -right);
        let towards = goes * self.cosine + left * self.sine;
        if towards < 0.1 {
            return light;
        }
        let distance = (self.forward * self.cosine + self.left * self.sine) / towards;
        let (ahead, aside) = (distance * goes - self.forward, distance * left - self.left);
        let across = aside * self.cosine - ahead * self.sine;
        let height = RISE - distance * sinks;
        let millimetres = |metres: f64| rounded(metres * 1000.0);
        let size = millimetres(distance / FOCAL).max(1);
        let wide = share(millimetres(across), size, 0, millimetres(OBSTACLE_HALF));
        let half = millimetres(OBSTACLE_HEIGHT / 2.0);
        let high = share(millimetres(height), size, half, half);
        mixed(light, OBSTACLE, wide * high / 256)
    }
}
