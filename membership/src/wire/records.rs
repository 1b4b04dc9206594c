//! Identities, members and reports, and the header of a packet of the engine.

use foca::{Codec, Member, Message};

use super::bytes::{Input, put_address, put_text};
use super::damaged::Damaged;
use crate::identity::{GENERATION_END, Identity};
use crate::vitals::{Report, Roles, State, Vitals, ZONE_MAX_BYTES};

/// The header of a packet of the engine.
pub type Header = foca::Header<Identity>;

pub(super) fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    put_address(out, Some(identity.address));
    out.extend_from_slice(&identity.generation.to_le_bytes()[..6]);
    out.extend_from_slice(&identity.chance.to_le_bytes());
}

pub(super) fn identity(input: &mut Input<'_>) -> Result<Identity, Damaged> {
    let address = input.address()?.ok_or(Damaged::Address)?;
    let mut generation = [0; 8];
    generation[..6].copy_from_slice(input.take(6)?);
    Ok(Identity { address, generation: u64::from_le_bytes(generation), chance: input.u64()? })
}

const _: () = assert!(GENERATION_END == 1 << 48, "six bytes hold a generation");

pub(super) fn write_member(out: &mut Vec<u8>, member: &Member<Identity>) {
    put_identity(out, member.id());
    out.extend_from_slice(&member.incarnation().to_le_bytes());
    out.push(match member.state() {
        foca::State::Alive => 0,
        foca::State::Suspect => 1,
        foca::State::Down => 2,
    });
}

pub(super) fn member(input: &mut Input<'_>) -> Result<Member<Identity>, Damaged> {
    let (id, incarnation) = (identity(input)?, input.u16()?);
    let state = match input.u8()? {
        0 => foca::State::Alive,
        1 => foca::State::Suspect,
        2 => foca::State::Down,
        _ => return Err(Damaged::Number),
    };
    Ok(Member::new(id, incarnation, state))
}

/// Reads a member, and how many bytes it has.
fn read_member(bytes: &[u8]) -> Result<(Member<Identity>, usize), Damaged> {
    let mut input = Input::new(bytes);
    let member = member(&mut input)?;
    Ok((member, bytes.len() - input.rest().len()))
}

/// The bit beside those of roles that says that a member does not reach the bucket. Versions that do not
/// know it take it for a role that they do not know.
const CUT_OFF: u32 = 1 << 31;

pub(super) fn write_report(out: &mut Vec<u8>, report: &Report) {
    let Report { number, vitals } = report;
    out.extend_from_slice(&number.to_le_bytes());
    out.push(match vitals.state {
        State::Joining => 1,
        State::Active => 2,
        State::Leaving => 3,
        State::Left => 4,
    });
    let cut_off = if vitals.is_cut_off { CUT_OFF } else { 0 };
    out.extend_from_slice(&(vitals.roles.bits() & !CUT_OFF | cut_off).to_le_bytes());
    out.extend_from_slice(&vitals.protocol_min.to_le_bytes());
    out.extend_from_slice(&vitals.protocol_max.to_le_bytes());
    out.extend_from_slice(&vitals.started_unix_ms.to_le_bytes());
    out.extend_from_slice(&vitals.map_number.to_le_bytes());
    out.extend_from_slice(&vitals.writer_epoch.unwrap_or(u32::MAX).to_le_bytes());
    put_text(out, &vitals.instance);
    put_text(out, &vitals.zone);
    put_address(out, vitals.transport);
    put_address(out, vitals.http);
}

pub(super) fn report(input: &mut Input<'_>) -> Result<Report, Damaged> {
    let number = input.u64()?;
    let state = match input.u8()? {
        1 => State::Joining,
        2 => State::Active,
        3 => State::Leaving,
        4 => State::Left,
        _ => return Err(Damaged::Number),
    };
    let roles = input.u32()?;
    let vitals = Vitals {
        state,
        roles: Roles::from_bits(roles & !CUT_OFF),
        is_cut_off: roles & CUT_OFF != 0,
        protocol_min: input.u16()?,
        protocol_max: input.u16()?,
        started_unix_ms: input.u64()?,
        map_number: input.u64()?,
        writer_epoch: Some(input.u32()?).filter(|epoch| *epoch != u32::MAX),
        instance: input.text()?.to_owned(),
        zone: input.text()?.to_owned(),
        transport: input.address()?,
        http: input.address()?,
    };
    if vitals.instance.is_empty() || vitals.zone.len() > ZONE_MAX_BYTES {
        return Err(Damaged::Text);
    }
    if vitals.protocol_min > vitals.protocol_max {
        return Err(Damaged::Number);
    }
    Ok(Report { number, vitals })
}

pub(super) fn write_header(out: &mut Vec<u8>, header: &Header) {
    put_identity(out, &header.src);
    out.extend_from_slice(&header.src_incarnation.to_le_bytes());
    put_identity(out, &header.dst);
    let mut with = |kind: u8, of: Option<&Identity>, probe_number: u8| {
        out.push(kind);
        if let Some(of) = of {
            put_identity(out, of);
        }
        out.push(probe_number);
    };
    match &header.message {
        Message::Ping(number) => with(1, None, *number),
        Message::Ack(number) => with(2, None, *number),
        Message::PingReq { target, probe_number } => with(3, Some(target), *probe_number),
        Message::IndirectPing { origin, probe_number } => with(4, Some(origin), *probe_number),
        Message::IndirectAck { target, probe_number } => with(5, Some(target), *probe_number),
        Message::ForwardedAck { origin, probe_number } => with(6, Some(origin), *probe_number),
        Message::Announce => out.push(7),
        Message::Feed => out.push(8),
        Message::Gossip => out.push(9),
        Message::Broadcast => out.push(10),
        Message::TurnUndead => out.push(11),
    }
}

pub(super) fn header(input: &mut Input<'_>) -> Result<Header, Damaged> {
    let (src, src_incarnation, dst) = (identity(input)?, input.u16()?, identity(input)?);
    let message = match input.u8()? {
        1 => Message::Ping(input.u8()?),
        2 => Message::Ack(input.u8()?),
        3 => Message::PingReq { target: identity(input)?, probe_number: input.u8()? },
        4 => Message::IndirectPing { origin: identity(input)?, probe_number: input.u8()? },
        5 => Message::IndirectAck { target: identity(input)?, probe_number: input.u8()? },
        6 => Message::ForwardedAck { origin: identity(input)?, probe_number: input.u8()? },
        7 => Message::Announce,
        8 => Message::Feed,
        9 => Message::Gossip,
        10 => Message::Broadcast,
        11 => Message::TurnUndead,
        kind => return Err(Damaged::Kind(kind)),
    };
    Ok(Header { src, src_incarnation, dst, message })
}

/// The codec of the engine. It also notes the incarnation of this node, which the engine keeps to
/// itself.
#[derive(Debug, Default)]
pub(crate) struct WireCodec {
    /// The incarnation in the last header that was written.
    pub(crate) incarnation: std::rc::Rc<std::cell::Cell<u16>>,
    scratch: Vec<u8>,
}

impl WireCodec {
    fn put(&self, mut buf: impl bytes::BufMut) -> Result<(), Damaged> {
        // The engine wants all of it or nothing.
        if buf.remaining_mut() < self.scratch.len() {
            return Err(Damaged::Room);
        }
        buf.put_slice(&self.scratch);
        Ok(())
    }
}

impl Codec<Identity> for WireCodec {
    type Error = Damaged;

    fn encode_header(&mut self, header: &Header, buf: impl bytes::BufMut) -> Result<(), Damaged> {
        self.incarnation.set(header.src_incarnation);
        self.scratch.clear();
        write_header(&mut self.scratch, header);
        self.put(buf)
    }

    fn decode_header(&mut self, mut buf: impl bytes::Buf) -> Result<Header, Damaged> {
        let mut input = Input::new(buf.chunk());
        let header = header(&mut input)?;
        let used_bytes = buf.chunk().len() - input.rest().len();
        buf.advance(used_bytes);
        Ok(header)
    }

    fn encode_member(
        &mut self,
        member: &Member<Identity>,
        buf: impl bytes::BufMut,
    ) -> Result<(), Damaged> {
        self.scratch.clear();
        write_member(&mut self.scratch, member);
        self.put(buf)
    }

    fn decode_member(&mut self, mut buf: impl bytes::Buf) -> Result<Member<Identity>, Damaged> {
        let (member, used_bytes) = read_member(buf.chunk())?;
        buf.advance(used_bytes);
        Ok(member)
    }
}
